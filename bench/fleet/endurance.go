package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// endureLimits are by how much medians may grow from one third of the samples to another, a time
// apart. The name of a killed worker is kept for a day, as one element; rates and statistics are
// kept for days, and are not among the keys. The ends of lives are kept until their time.
func endureLimits(from size, o *options, kills int) []growthLimit {
	apart := o.endure * 9 / 10 * 2 / 3
	lives, warm := 0.0, 0.0
	if o.endure/10 < time.Minute { // heaps are still growing to their size
		warm = 10_000
	}
	if o.endure/10 < 2*o.life() {
		lives = o.life().Seconds() * float64(o.rate) / 5
	}
	return []growthLimit{
		{"keys", "", 50 + from["keys"]/20},
		{"elements", "", 50 + from["elements"]/20 + float64(kills)*2/3 + lives},
		{"memory", "KB", 1000 + from["memory"]/20 + 30*apart.Minutes()},
		{"resident", "KB", 4000 + from["resident"]/10 + 30*apart.Minutes() + warm},
		{"scripts", "KB", 100},
		{"scripts by Lua", "KB", 1000},
		{"channels", "", 5},
		{"connections", "", 10},
		{"goroutines", "", 10},
		{"descriptors", "", 10},
		{"heap", "KB", 2000 + from["heap"]/10 + warm},
	}
}

// judge reports what everything was like, and returns an error if something grew after the first
// tenth of the time: its median in the first third of the samples that then follow, and that in the
// last.
func (e *endurance) judge(r *report) error {
	var failed error
	for _, name := range slices.Sorted(maps.Keys(e.samples)) {
		all := e.samples[name]
		rest := all[len(all)/10:]
		third := max(1, len(rest)/3)
		early, late := medians(rest[:third]), medians(rest[len(rest)-third:])
		r.in("%s", name)
		if jobs, ok := all[len(all)-1]["jobs"]; ok && jobs > 0 {
			r.add("jobs, pages", jobs, "")
		}
		for _, limit := range endureLimits(early, e.o, e.kills) {
			if _, ok := early[limit.name]; !ok {
				continue
			}
			r.add(limit.name+", early", early[limit.name], limit.unit)
			more := late[limit.name] - early[limit.name]
			r.bound(limit.name+", more late", more, limit.unit, limit.most)
			if more > limit.most {
				by := fmt.Sprintf("%s of %s has grown by %.0f %s", limit.name, name, more, limit.unit)
				failed = errors.Join(failed, errors.New(strings.TrimSpace(by)))
			}
		}
	}
	r.in("all")
	r.add("workers killed", float64(e.kills), "")
	return failed
}

// medians returns the median of each figure.
func medians(samples []size) size {
	all := size{}
	for name := range samples[0] {
		var values []float64
		for _, s := range samples {
			values = append(values, s[name])
		}
		slices.Sort(values)
		all[name] = values[len(values)/2]
	}
	return all
}
