// Package atomic shows that a command of qless is done as a whole or not at all: if a key that it
// needs is damaged, it is refused and changes nothing, or it does everything that does not concern
// the key. An item of a batch that can't be done does not affect the others.
package atomic
