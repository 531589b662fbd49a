package config_test

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weirlimit/weir/internal/config"
)

//go:generate go test . -run ^(TestDocs|TestConfigSchema)$ -update

const referenceHead = `# Configuration

` + "`weir serve`" + ` takes its settings from four places. A flag wins over its
environment variable, that over the file given with ` + "`--config`" + `, and that over
the default. A list that is given replaces the list of the file; in an
environment variable limits are separated by ` + "`;`" + `, prefixes by ` + "`,`" + `.
Most settings without a flag have a variable all the same.

` + "`weir serve --print-config`" + ` prints the resulting configuration, secrets left
out; ` + "`weir help config`" + ` lists all keys. The file is strict: an unknown or
repeated key is an error that names its line. A ` + "`WEIR_*`" + ` variable that is no
setting is logged as a warning at the start; those that Kubernetes sets for a
service are not. Relative paths, in the file too, start at the working directory.

Durations are written ` + "`500ms`, `10s`, `5m`" + `; sizes ` + "`64KiB`, `512MiB`" + `; addresses
` + "`HOST:PORT`" + `, where an empty host is every address of the machine and port 0
any free port. Editors can use the [JSON Schema](../../../cmd/weir/schema/config.schema.json);
` + "`weir schema config`" + ` prints that of the release.

` + "```yaml" + `
# yaml-language-server: $schema=https://github.com/weirlimit/weir/releases/latest/download/config.schema.json
limits: ["100/minute by ip", "2000/day by ip"]
upstream: http://127.0.0.1:3000
http:
  listen: :8080
  tls: {cert: /etc/weir/cert.pem, key: /etc/weir/key.pem}
admin:
  listen: 0.0.0.0:6070
  token_file: /run/secrets/weir-admin
drain: {delay: 5s}
` + "```" + `

The list ` + "`routes`" + ` and the section ` + "`shed`" + ` are in the file alone: [below](#routes).

| key in the file | flag | environment | default |
|---|---|---|---|
`

// reference returns docs/reference/generated/configuration.md, made of the tags of [server.Config].
func reference() string {
	var table, text strings.Builder
	for _, s := range config.Settings() {
		def := "none"
		if s.Default != "" {
			def = "`" + s.Default + "`"
		}
		flag, env, usage := "", "", s.Key+": "+s.Placeholder
		if s.Env() != "" {
			env = "`" + s.Env() + "`"
		}
		if s.Flag != "" {
			flag, usage = "`--"+s.Flag+"`", strings.TrimSuffix("--"+s.Flag+" "+s.Placeholder, " ")
		}
		fmt.Fprintf(&table, "| [`%s`](#%s) | %s | %s | %s |\n", s.Key, anchor(s.Key), flag, env, def)
		fmt.Fprintf(&text, "\n## %s\n\n`%s`. %s\n", s.Key, strings.TrimSuffix(usage, ": "), s.Help)
	}
	return referenceHead + table.String() + text.String() + referenceRoutes() + referenceShed
}

// referenceShed documents the keys of a section that reads itself.
const referenceShed = `
## shed

In the file alone: [load shedding](../../how-to/load-shedding.md). Without the section nothing is shed. ` + "`shed: {}`" + ` sheds nothing either, but a limit on what is under way can be given while the server runs. With the section, routes without a priority, and requests of the API that name none, have the priority ` + "`default`" + `.

| key | meaning |
|---|---|
| ` + "`name`" + ` | Tells the counters of this fleet from those of others on the same store. Empty means shed. |
| ` + "`domain`" + ` | Domain of the requests that the first three limiters are for. Empty means every domain. |
| ` + "`user`" + ` | Keys of the entries that tell whose a request is; of those that it has the first counts. Empty means user, api_key, client, remote_address. |
| ` + "`off`" + ` | Start with load shedding disabled. |
| ` + "`user_rate.limit`, `user_rate.burst`" + ` | What one user may ask for, as in ` + "`100/second`" + `; and at once, the count of the limit if it is empty. |
| ` + "`user_concurrency.limit`, `user_concurrency.ttl`" + ` | How many requests of one user run at once, on all nodes, up to 10000; and how long one counts whose node has died, 30s if it is empty. |
| ` + "`fleet_share.limit`, `fleet_share.headroom`" + ` | What all nodes together take on; and how much of it is kept for critical requests, 20% if it is empty. |
| ` + "`in_flight.limit`" + ` | How many requests this node has under way, up to 1048576. |
| ` + "`in_flight.shares.critical`, `.default`, `.sheddable`, `.background`" + ` | How much of it each class may fill. Empty means 100%, 90%, 75% and 50%. |
| ` + "`in_flight.retry_after`" + ` | What refused clients are told, whole seconds up to 1h. Empty means 1s. |
| ` + "`mode`" + ` of each | enforce, shadow (counts and refuses nothing) or off. Empty means enforce. |

A limiter without a limit does not exist.
`

// referenceRoutes documents the keys of a route, which stand in the file alone.
func referenceRoutes() string {
	var b strings.Builder
	b.WriteString("\n## routes\n\nIn the file alone: a list of routes, of which the first that matches a request is taken. See [the gateway](../gateway.md).\n\n| key | meaning |\n|---|---|\n")
	for f := range reflect.TypeFor[config.Route]().Fields() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Tag.Get("yaml"), f.Tag.Get("help"))
	}
	return b.String()
}

// anchor is the fragment that Markdown renderers give a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(heading), ".", "")
}
