package qlessprom_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/qless/qless-go/qlessprom"
)

const root = ".."

func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// exported returns the labels of each series exported by this package, by name.
func exported() map[string][]string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		qlessprom.NewGroup(nil, "*", qlessprom.Options{}).Describe(descs)
		qlessprom.NewClientMetrics(qlessprom.ProcessOptions{}).Describe(descs)
		qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{}).Describe(descs)
	}()
	pattern := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	names := map[string][]string{}
	for desc := range descs {
		found := pattern.FindStringSubmatch(desc.String())
		names[found[1]] = strings.Split(found[2], ",")
	}
	return names
}

var (
	seriesPattern  = regexp.MustCompile(`(qless_\w+)(\{[^}]*\})?`)
	matcherPattern = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	groupPattern   = regexp.MustCompile(`\b(?:by|on|without|ignoring) \(([^)]*)\)`)
)

// problemsOf returns the names in an expression that are not exported.
func problemsOf(expr string) []string {
	known, labels := exported(), []string{"le", "instance", "job"}
	var problems []string
	for _, found := range seriesPattern.FindAllStringSubmatch(expr, -1) {
		name := found[1]
		own, ok := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
				own, ok = known[base]
			}
		}
		if !ok {
			problems = append(problems, name)
		}
		labels = append(labels, own...)
		for _, matcher := range matcherPattern.FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(append([]string{"instance", "job", "le"}, own...), matcher[1]) {
				problems = append(problems, name+" has no label "+matcher[1])
			}
		}
	}
	for _, found := range groupPattern.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) {
				problems = append(problems, "no series has the label "+label)
			}
		}
	}
	return problems
}

func TestExpressionsThatNameWhatIsNotExported(t *testing.T) {
	for expr, want := range map[string][]string{
		`rate(qless_queue_wait_seconds_bucket{queue="a"}[5m])`: nil,
		`sum by (klass) (qless_worker_jobs_total)`:             nil,
		`qless_nothing`:                  {"qless_nothing"},
		`qless_workers{queue="a"}`:       {"qless_workers has no label queue"},
		`sum by (queue) (qless_workers)`: {"no series has the label queue"},
	} {
		require.Equal(t, want, problemsOf(expr), expr)
	}
}

type rules struct {
	Groups []struct {
		Rules []struct {
			Alert       string
			Expr        string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func TestAlertsNameWhatIsExportedAndLeadToTheirRunbooks(t *testing.T) {
	var r rules
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "deploy/prometheus/alerts.yml")), &r))
	page, tests := readFile(t, "docs/operations.md"), readFile(t, "deploy/prometheus/alerts_test.yml")
	require.Len(t, r.Groups, 1)
	require.NotEmpty(t, r.Groups[0].Rules)
	for _, rule := range r.Groups[0].Rules {
		require.Empty(t, problemsOf(rule.Expr), rule.Alert)
		require.Contains(t, []string{"page", "ticket"}, rule.Labels["severity"])
		require.NotEmpty(t, rule.Annotations["summary"])
		_, anchor, found := strings.Cut(rule.Annotations["runbook_url"], "docs/operations.md#")
		require.True(t, found, rule.Alert)
		require.Contains(t, anchors(page), anchor, rule.Alert)
		require.Contains(t, tests, `alertname="`+rule.Alert+`"`, "a test of the alert")
		require.Contains(t, page, "`"+rule.Alert+"`", "the alert in the page")
	}
}

// judged are the series judged by the table of reasons. Their trend is no reason.
var judged = regexp.MustCompile(`deriv|qless_(queue_(oldest_waiting_seconds|paused|jobs|failures_total)|` +
	`failed_jobs|limit_parked|schedule_overdue|outbox_\w+|worker_oldest_running_seconds)|redis_\w+`)

// The two alerts by gravity are the only alerts about the table of reasons.
func TestReasonsHaveTheirThresholdsInOneTable(t *testing.T) {
	var r rules
	require.NoError(t, yaml.Unmarshal([]byte(readFile(t, "deploy/prometheus/alerts.yml")), &r))
	alerts := r.Groups[0].Rules
	for i, want := range [][]string{ // TestEachProblemIsExported has the levels
		{"QlessUrgentProblem", "qless_problem == 2", "page"}, {"QlessProblem", "qless_problem == 1", "ticket"},
	} {
		require.Equal(t, want, []string{alerts[i].Alert, alerts[i].Expr, alerts[i].Labels["severity"]})
	}
	for _, alert := range alerts[2:] {
		require.NotContains(t, alert.Expr, "qless_problem", alert.Alert)
		if use := judged.FindString(alert.Expr); use != "deriv" {
			require.Empty(t, use, alert.Alert)
		}
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) []string {
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		found = append(found, strings.ReplaceAll(text, " ", "-"))
	}
	return found
}

func TestAlertsFireForWhatTheyAreAbout(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("there is no promtool: .ci/install prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		command := exec.Command("promtool", args...)
		command.Dir = filepath.Join(root, "deploy/prometheus")
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
	}
}

func TestTheDashboardNamesWhatIsExported(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	text := readFile(t, "deploy/grafana/qless.json")
	require.NoError(t, json.Unmarshal([]byte(text), &dashboard))
	ids := map[int]bool{}
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		require.False(t, ids[panel.ID], "two panels with an id")
		ids[panel.ID] = true
		require.LessOrEqual(t, panel.GridPos.X+panel.GridPos.W, 24, panel.Title)
		for _, target := range panel.Targets {
			require.Empty(t, problemsOf(target.Expr), panel.Title)
			for _, found := range seriesPattern.FindAllStringSubmatch(target.Expr, -1) {
				shown[found[1]] = true
			}
		}
	}
	for _, variable := range dashboard.Templating.List {
		require.Empty(t, problemsOf(variable.Definition))
	}
	for name := range exported() {
		require.True(t, shown[name] || shown[name+"_bucket"] || shown[name+"_count"], "%s is on the dashboard", name)
	}
}

func TestThePageOfMetricsNamesAllThatIsExported(t *testing.T) {
	page := readFile(t, "docs/metrics.md")
	for name, labels := range exported() {
		require.Contains(t, page, "`"+name+"`", name)
		for _, label := range labels {
			require.Contains(t, page, label)
		}
	}
	require.Empty(t, slices.DeleteFunc(
		seriesPattern.FindAllString(page, -1), func(name string) bool { _, ok := exported()[name]; return ok }))
}

// shutdown is the default of a worker's ShutdownTimeout.
const shutdown = 20 * time.Second

func TestTimesToStopLeaveAWorkerItsOwn(t *testing.T) {
	require.Contains(t, readFile(t, "worker.go"),
		"cmp.Or(c.ShutdownTimeout, "+strconv.Itoa(int(shutdown.Seconds()))+"*time.Second)")
	pods, unit := workload(t).Spec.Template.Spec, unitFile(t)
	grace := time.Duration(pods.TerminationGracePeriodSeconds) * time.Second
	stop, err := strconv.Atoi(unit["TimeoutStopSec"])
	require.NoError(t, err)
	require.Greater(t, grace, shutdown)
	require.Greater(t, time.Duration(stop)*time.Second, grace)
}

type deployment struct {
	Kind string
	Spec struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext               struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
					RunAsUser    int  `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []struct {
					Args  []string
					Env   []struct{ Name string }
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					LivenessProbe   probe `yaml:"livenessProbe"`
					ReadinessProbe  probe `yaml:"readinessProbe"`
					SecurityContext struct {
						ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
						AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
					} `yaml:"securityContext"`
					Resources struct {
						Requests, Limits map[string]string
					}
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// workload returns the Deployment of deploy/kubernetes.yaml.
func workload(t testing.TB) deployment {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(readFile(t, "deploy/kubernetes.yaml")))
	var found deployment
	for {
		var next deployment
		err := decoder.Decode(&next)
		if err == io.EOF {
			require.Equal(t, "Deployment", found.Kind)
			return found
		}
		require.NoError(t, err)
		if next.Kind == "Deployment" {
			found = next
		}
	}
}

func TestPodsHaveProbesAndNoRights(t *testing.T) {
	template := workload(t).Spec.Template
	require.True(t, template.Spec.SecurityContext.RunAsNonRoot)
	require.Len(t, template.Spec.Containers, 1)
	c := template.Spec.Containers[0]
	require.True(t, c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, "/healthz", c.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", c.ReadinessProbe.HTTPGet.Path)
	require.NotEmpty(t, c.Resources.Requests["memory"])
	require.NotEmpty(t, c.Resources.Limits["memory"])
	ports := map[string]string{}
	for _, port := range c.Ports {
		ports[port.Name] = strconv.Itoa(port.ContainerPort)
	}
	require.Contains(t, ports, c.LivenessProbe.HTTPGet.Port)
	require.Contains(t, ports, c.ReadinessProbe.HTTPGet.Port)
	require.Equal(t, ports["metrics"], template.Metadata.Annotations["prometheus.io/port"])
	require.Equal(t, []string{"serve", "--metrics", ":" + ports["metrics"]}, c.Args)
	require.Equal(t, "QLESS_REDIS_URL", c.Env[0].Name)

	image := readFile(t, "Dockerfile")
	require.Contains(t, image, "USER "+strconv.Itoa(template.Spec.SecurityContext.RunAsUser)+":")
	require.Contains(t, image, `CMD ["`+strings.Join(c.Args, `", "`)+`"]`)
	require.Contains(t, image, "EXPOSE "+ports["metrics"])
}

// unitFile returns the settings of deploy/systemd/qless.service.
func unitFile(t testing.TB) map[string]string {
	t.Helper()
	settings := map[string]string{}
	for line := range strings.Lines(readFile(t, "deploy/systemd/qless.service")) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && line[0] != '#' {
			settings[name] = value
		}
	}
	return settings
}

func TestTheUnitIsValid(t *testing.T) {
	unit := unitFile(t)
	require.Equal(t, "yes", unit["DynamicUser"])
	require.Equal(t, "strict", unit["ProtectSystem"])
	require.NotEmpty(t, unit["MemoryMax"])
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze")
	}
	// The program need not be installed.
	text := strings.ReplaceAll(readFile(t, "deploy/systemd/qless.service"), "/usr/local/bin/qless", "/bin/true")
	name := filepath.Join(t.TempDir(), "qless.service")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	output, err := exec.Command("systemd-analyze", "verify", "--man=no", name).CombinedOutput()
	require.NoError(t, err, string(output))
	require.NotContains(t, string(output), "qless.service:")
}
