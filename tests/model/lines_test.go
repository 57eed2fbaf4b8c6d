package model

import (
	"strings"
	"testing"
	"time"
)

// Cases found by random lines, as regression tests. Spaces separate the words of a line.
var pinnedLines = []struct {
	name  string
	steps []step
}{
	{"an unpaused queue has its parked jobs due", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`),
		line(`put w q2 j2 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"), line("pop q2 w 1"), line("pause q2"),
		line("complete j1 w q1 {}"), line("unpause q2"),
	}},
	{"a parked job that is replaced is due as before", []step{
		line("limit.set a 0 1 30"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line(`put w q1 j2 K {} 0 o cu|{"c":["a"],"u":{"k":"[1]"}} replace due`), line("pop q1 w 1"),
		later(`put w q1 j3 K {} 0 o u|{"u":{"k":"[1]"}} replace due`),
	}},
	{"a parked job that gets another priority returns with it", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line(`put w q1 j2 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"), line("priority j2 10"),
		line("complete j1 w q1 {}"),
	}},
	{"a debounced job that is put late takes a turn", []step{
		line(`put w q1 j1 K {} 1 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
		later(`put w q1 j2 K {} 1 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
	}},
	{"a failed job that is put back takes a turn", []step{
		line(`put w q1 j1 K {} 0 o g|{"g":{"t":"x"}}`), line("pop q1 w 1"), line("fail j1 w oops because"),
		line("unfail.job j1"),
	}},
	{"the last put of a call has its own priority", []step{
		line(`put w q1 j1 K {} 0 o u|{"u":{"k":"[1]"}}`),
		later(`put.many w - q1 j2 K {} 0 6 priority 1 o u|{"u":{"k":"[1]"}} replace due ` +
			`q1 j3 K {} 0 6 priority 10 o u|{"u":{"k":"[1]"}} replace due`),
		line("peek q1 1"),
	}},
	{"the last put of a call has its own tenant", []step{
		line(`put w q1 j1 K {} 0 o u|{"u":{"k":"[1]"}}`),
		later(`put.many w - q1 j2 K {} 0 4 o u|{"u":{"k":"[1]"}} replace due ` +
			`q1 j3 K {} 0 4 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
	}},
	{"an end to be tried again frees the slots", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line("end j1 failed oops because 3"),
	}},
	{"a batch that is replaced is one", []step{
		line(`put w q1 j1 K {} 0 depends ["x:open"] o bu|{"b":{"n":0},"u":{"k":"[1]"}}`),
		line(`put w q1 j2 K {} 0 o u|{"u":{"k":"[1]"}} replace delay`),
	}},
	{"a failure reaches a job of the same exchange", []step{
		line("put w q1 j1 K {} 0"), line("put w q1 j2 K {} 0"), line("pop q1 w 2"),
		line(`finish w complete j1 q1 - 6 next q1 depends ["j2"] o f|{"f":{"do":"run"}} complete j2 q1 - 4 next q1 ` +
			`o h|{"h":{"k":"v"}}`),
	}},
}

// line returns a step for a line, in which - is an empty word.
func line(text string) step {
	words := strings.Fields(text)
	for i, word := range words {
		if word == "-" {
			words[i] = ""
		}
	}
	return step{Do: "flat", Raw: words}
}

// later is line two seconds later.
func later(text string) step {
	s := line(text)
	s.Tick = 2 * time.Second
	return s
}

func TestPinnedLines(t *testing.T) {
	x := newMix(t)
	for _, p := range pinnedLines {
		t.Run(p.name, func(t *testing.T) {
			if v := x.playAll(t.Context(), append(p.steps, step{Do: "Drain"})); v != nil {
				t.Error(report(v, p.steps))
			}
		})
	}
}
