package words

import "strings"

// A Part is a part of a message with a stack.
type Part struct {
	Text     string
	IsFolded bool // belongs to the runtime or the worker
	IsMarked bool // first frame of the program itself

	frames int
}

// Title returns the title of a folded part.
func (p Part) Title() string { return Plural(p.frames, "frame") + " of the runtime and the worker" }

// foreign are the prefixes of functions outside the program itself.
var foreign = []string{
	"runtime.", "runtime/", "panic(", "github.com/qless/qless-go", "created by ", "testing.",
}

// Stack returns the parts of a message, which may end with the stack of a goroutine: for each
// frame, the line of the function and the indented line of its position.
func Stack(text string) []Part {
	var parts []Part
	add := func(text string, like Part) {
		last := len(parts) - 1
		if last < 0 || parts[last].IsFolded != like.IsFolded || parts[last].IsMarked != like.IsMarked {
			parts = append(parts, like)
			parts[last+1].Text = text
			return
		}
		parts[last].Text += "\n" + text
		parts[last].frames += like.frames
	}
	lines := strings.Split(Shown(text), "\n")
	inStack, isMarked := false, false
	for i := 0; i < len(lines); i++ {
		inStack = inStack || strings.HasPrefix(lines[i], "goroutine ")
		if !inStack || i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "\t") {
			add(lines[i], Part{})
			continue
		}
		frame := Part{frames: 1}
		for _, begin := range foreign {
			frame.IsFolded = frame.IsFolded || strings.HasPrefix(lines[i], begin)
		}
		frame.IsMarked = !frame.IsFolded && !isMarked
		isMarked = isMarked || frame.IsMarked
		add(lines[i]+"\n"+lines[i+1], frame)
		i++
	}
	return parts
}
