// Package docs tests the documentation: Go code compiles, the first program works as described,
// links have targets, and comments are plain and not too wide.
//
// Whole programs are built. Other blocks of code are type-checked, as declarations or as the body
// of a function, with the packages of blockImports imported and the variables of commonVars
// declared. Other names left out by a block are declared in an HTML comment right before the block:
//
//	<!-- stubs
//	func send(ctx context.Context, to string) error { return nil }
//	-->
package docs
