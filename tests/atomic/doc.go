// Package atomic shows that a command of qless is done as a whole or not at all: when one of the
// keys that it needs is damaged, it refuses and changes nothing, or does everything but what
// concerns that key. An item of a batch that can't be done leaves the others whole.
package atomic
