package main

import "testing"

func TestRun(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	if err := run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}
