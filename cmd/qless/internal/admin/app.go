// Package admin has the commands for settings, dumps, the script and measurements.
package admin

import "github.com/qless/qless-go/cmd/qless/internal/place"

// An app runs the commands of this package in a place.
type app struct{ *place.Place }
