package luasrc

// A symbol is a named variable, parameter or function.
type symbol struct {
	name     string
	file     string
	line     int
	kind     symbolKind
	used     bool      // mentioned after its declaration
	isParam  bool      // a parameter of a function
	assigned bool      // another value is assigned later
	fn       *function // if declared as a function
	value    expr      // the initial value of a variable; nil for nil
}

// symbolKind is the place of a symbol's declaration.
type symbolKind int

const (
	inBlock symbolKind = iota
	inPrologue
	inLibrary
)

// An expr is an expression.
type expr interface{}

// A stat is a statement.
type stat interface{}

type (
	// A name is a use of a symbol, or of a global variable, which has no symbol.
	name struct {
		text string
		sym  *symbol
		line int
		set  bool // an assignment
	}

	// A literal is nil, true, false, a number or ....
	literal struct{ text string }

	// A text is a string.
	text struct{ value string }

	// A function is the value of a function: its parameters and its body.
	function struct {
		params   []*symbol
		variadic bool
		body     []stat
		cold     bool // seldom runs
	}

	binary struct {
		op   string
		a, b expr
	}

	unary struct {
		op string
		x  expr
	}

	// An index is x[key]; x.field if the key is a text that is a name.
	index struct{ x, key expr }

	// A call is fn(args...).
	call struct {
		fn   expr
		args []expr
		line int
	}

	// A table is a constructor. Items without a key form the list.
	table struct{ items []item }
	item  struct{ key, value expr }

	// A paren is an expression in brackets, with one value.
	paren struct{ x expr }
)

type (
	local struct {
		syms   []*symbol
		values []expr
	}
	localFunction struct {
		sym *symbol
		fn  *function
	}
	assign struct{ targets, values []expr }
	run    struct{ call expr }
	block  struct{ body []stat }
	while  struct {
		cond expr
		body []stat
	}
	repeat struct {
		body []stat
		cond expr
	}
	// A branch has a nil condition for else.
	branch struct {
		cond expr
		body []stat
	}
	// A flat choice is printed without indenting its bodies.
	choice struct {
		branches []branch
		flat     bool
	}
	forStep struct {
		sym            *symbol
		from, to, step expr
		body           []stat
	}
	forEach struct {
		syms   []*symbol
		values []expr
		body   []stat
	}
	ret   struct{ values []expr }
	leave struct{} // break
)
