package histogram

import (
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A Day summarizes the durations of the jobs of a queue on one day, like the statistics of all
// clients: in buckets of 60 seconds, then 59 minutes, 23 hours and days.
type Day struct {
	Count     int
	Mean, Std time.Duration
	Buckets   []Bucket // shortest first, without empty buckets
}

// DayOf returns a summary from the counts of all buckets.
func DayOf(count, mean, std wire.Number, counts []wire.Number) Day {
	d := Day{Count: count.Int(), Mean: mean.Duration(), Std: std.Duration()}
	for i, count := range counts {
		if count > 0 {
			from, width := dayBucket(i)
			d.Buckets = append(d.Buckets, Bucket{From: from, To: from + width, Count: count.Int()})
		}
	}
	return d
}

// ReadDay reads the fields and values of a stored summary: total, mean, vk, which is the variance
// times total - 1, and the counts of buckets, such as s0.
func ReadDay(fields []any) Day {
	var total, mean, vk wire.Number
	var counts [dayBuckets]wire.Number
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := wire.AsString(fields[i]), wire.AsNumber(fields[i+1])
		switch name {
		case "total":
			total = value
		case "mean":
			mean = value
		case "vk":
			vk = value
		default:
			if at, ok := bucketNamed(name); ok {
				counts[at] = value
			}
		}
	}
	std := wire.Number(math.Sqrt(max(0, float64(vk)) / max(1, float64(total-1))))
	return DayOf(total, mean, std, counts[:])
}

// dayBuckets is the number of buckets of a day.
const dayBuckets = 60 + 59 + 23 + 6

// bucketNamed returns the index of a bucket by its stored name: s0 to s59, m1 to m59, h1 to h23,
// and d1 to d6.
func bucketNamed(name string) (int, bool) {
	if name == "" {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	switch {
	case err != nil:
	case name[0] == 's' && n >= 0 && n < 60:
		return n, true
	case name[0] == 'm' && n >= 1 && n < 60:
		return 60 + n - 1, true
	case name[0] == 'h' && n >= 1 && n < 24:
		return 60 + 59 + n - 1, true
	case name[0] == 'd' && n >= 1 && n < 7:
		return 60 + 59 + 23 + n - 1, true
	}
	return 0, false
}

// dayBucket returns the beginning and the width of a histogram's bucket. A histogram has buckets
// for 60 seconds, then 59 minutes, 23 hours, and days.
func dayBucket(i int) (from, width time.Duration) {
	switch {
	case i < 60:
		return time.Duration(i) * time.Second, time.Second
	case i < 60+59:
		return time.Duration(i-59) * time.Minute, time.Minute
	case i < 60+59+23:
		return time.Duration(i-60-59+1) * time.Hour, time.Hour
	}
	const day = 24 * time.Hour
	return time.Duration(i-60-59-23+1) * day, day
}
