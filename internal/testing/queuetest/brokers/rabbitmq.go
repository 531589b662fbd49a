package brokers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/weirlimit/weir/internal/testing/queuetest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// script starts the broker as its own user without a wrapper that would become
// another, where Debian keeps it.
const script = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// RabbitMQ starts one, with the daemon that Erlang's nodes find each other by,
// on ports and in a folder of its own. Its configuration has the given lines too.
func RabbitMQ(t testing.TB, conf ...string) *queuetest.Process {
	t.Helper()
	bin := servertest.Binary(t, "rabbitmq-server")
	if _, err := os.Stat(script); err == nil {
		bin = script
	}
	dir, port, names := t.TempDir(), servertest.FreePort(t), servertest.FreePort(t)
	write(t, filepath.Join(dir, "plugins"), "[].")
	write(t, filepath.Join(dir, "rabbitmq.conf"), "log.console.level = error\n"+strings.Join(conf, "\n")+"\n")
	servertest.Start(t, exec.Command(servertest.Binary(t, "epmd"), "-port", fmt.Sprint(names), "-address", "127.0.0.1"))
	env := append(os.Environ(),
		"RUNNING_UNDER_SYSTEMD=1", // no shell that stays in front of it
		"HOME="+dir, "RABBITMQ_MNESIA_BASE="+dir+"/data", "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+dir+"/plugins", "RABBITMQ_CONF_ENV_FILE="+dir+"/none", "RABBITMQ_CONFIG_FILE="+dir+"/rabbitmq",
		fmt.Sprintf("ERL_EPMD_PORT=%d", names), "ERL_EPMD_ADDRESS=127.0.0.1", fmt.Sprintf("RABBITMQ_NODENAME=weir%d@localhost", port),
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", fmt.Sprintf("RABBITMQ_NODE_PORT=%d", port), fmt.Sprintf("RABBITMQ_DIST_PORT=%d", servertest.FreePort(t)),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}")
	return queuetest.Start(t, fmt.Sprintf("127.0.0.1:%d", port), func() *exec.Cmd {
		cmd := exec.Command(bin)
		cmd.Env = env
		return cmd
	}, func() bool {
		c, err := amqp.Dial(fmt.Sprintf("amqp://127.0.0.1:%d", port))
		return err == nil && c.Close() == nil
	})
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
