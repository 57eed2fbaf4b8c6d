// Package atomic shows that a qless command is atomic: if a required key is damaged, the command is
// refused and changes nothing, or does everything that does not concern the key. An item of a batch
// that can't be done does not affect the others.
package atomic
