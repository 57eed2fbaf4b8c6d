//go:build interop

package interop

import (
	"crypto/sha1"
	"encoding/hex"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// readers print the SHA1 digest of a script read as UTF-8 by a program in another language.
var readers = map[string][]string{
	"Python": {"python3", "-c", `
import hashlib, sys
text = open(sys.argv[1], encoding="utf-8").read()
print(hashlib.sha1(text.encode("utf-8")).hexdigest())`},
	"Ruby": {"ruby", "-rdigest", "-rjson", "-e", `
text = File.read(ARGV[0], encoding: "UTF-8")
puts Digest::SHA1.hexdigest(JSON.parse(JSON.generate([text]))[0])`},
	"Node": {"node", "-e", `
const text = require("fs").readFileSync(process.argv[1], "utf8")
console.log(require("crypto").createHash("sha1").update(text, "utf8").digest("hex"))`},
	"PHP": {"php", "-r", `
$text = json_decode(json_encode([file_get_contents($argv[1])], JSON_THROW_ON_ERROR))[0];
echo sha1($text), "\n";`},
}

// Clients compute the digest for EVALSHA from the script as text.
func TestTheScriptIsTextInOtherLanguages(t *testing.T) {
	sum := sha1.Sum([]byte(qless.DropInScript()))
	for language, command := range readers {
		t.Run(language, func(t *testing.T) {
			output, err := exec.Command(command[0], append(command[1:], "../../lua/qless.lua")...).CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.Equal(t, hex.EncodeToString(sum[:]), strings.TrimSpace(string(output)))
		})
	}
}
