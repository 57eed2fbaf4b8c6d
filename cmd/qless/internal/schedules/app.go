// Package schedules has the commands for recurring jobs and schedules.
package schedules

import "github.com/qless/qless-go/cmd/qless/internal/place"

// An app runs the commands of this package in a place.
type app struct{ *place.Place }
