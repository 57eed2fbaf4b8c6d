package main

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

// pricesGroup measures what commands and pieces of Lua cost inside a script.
func (b *bench) pricesGroup() []group {
	return []group{{
		workload: "prices", label: "inside a script; a job is one of them",
		runs: []run{{peer: "server", do: b.priceEverything}},
	}}
}

// A price is an entry of the price list.
type price struct {
	name, prepare, loop string
}

// priceList is the text of all entries.
//
//go:embed prices.lua
var priceList string

// The repetitions of an entry of the price list. A cheap entry has more of them, because now and
// then Lua collects garbage.
const (
	commandLoops = 1000
	luaLoops     = 20000
)

// priceScript runs an entry of the price list: what it prepares, and its loop.
const priceScript = `
local call, loops = redis.call, %d
local function same(value) return value end
local function fill(key, count)
  for i = 1, count do
    call('zadd', key, string.format('%%d.%%06d', 1700000000 + i, i), 'member number ' .. i)
  end
end
local function job(key, data)
  call('hset', key, 'jid', 'a2f5c', 'klass', 'Bench', 'data', data or '{}', 'priority', '0',
    'tags', '[]', 'state', 'waiting', 'worker', '', 'expires', '0', 'queue', 'bench',
    'retries', '5', 'remaining', '5', 'time', '1700000000.123456')
end
%s
collectgarbage()
for i = 1, tonumber(ARGV[1]) do
%s
end
return 1`

// readPrices returns the entries of the price list.
func readPrices() []price {
	var prices []price
	for _, entry := range strings.Split(priceList, "\n-- price: ")[1:] {
		name, body, _ := strings.Cut(entry, "\n")
		prepare, loop, _ := strings.Cut("\n"+body, "\n-- loop\n")
		prices = append(prices, price{name: name, prepare: prepare, loop: loop})
	}
	return prices
}

func (b *bench) priceEverything(ctx context.Context) ([]sample, error) {
	var phases []sample
	var nothing sample
	for i, p := range readPrices() {
		one, err := b.price(ctx, p)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			nothing = one
			continue
		}
		one.instructions -= int64(nothing.instructionsPerJob() * float64(one.jobs))
		phases = append(phases, one)
	}
	return phases, nil
}

// price measures the loop of an entry: what the script costs with it and without.
func (b *bench) price(ctx context.Context, p price) (sample, error) {
	repeat := luaLoops
	if strings.Contains(p.loop, "call(") {
		repeat = commandLoops
	}
	script := fmt.Sprintf(priceScript, repeat, p.prepare, p.loop)
	sha, err := b.server.admin.ScriptLoad(ctx, script).Result()
	if err != nil {
		return sample{}, err
	}
	var both [2]sample
	for i, loops := range []int{0, repeat} {
		if err := b.server.empty(ctx); err != nil {
			return sample{}, err
		}
		both[i], err = b.server.sample(ctx, p.name, loops, func() error {
			return b.server.admin.EvalSha(ctx, sha, nil, loops).Err()
		})
		if err != nil {
			return sample{}, err
		}
	}
	one := both[1].minus(both[0])
	one.Commands, one.Scripts = 0, 0 // the counts of one EVALSHA say nothing
	return one, nil
}
