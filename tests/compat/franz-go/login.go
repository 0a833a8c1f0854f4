// Logs in with franz-go, and writes and reads records: the program of tests/compat/security/test_franz_go.py.
//
// It is built within franz-go's own module, so it needs no module of its own. It prints each value that came back.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var (
	seed        = flag.String("seed", "", "host:port")
	authority   = flag.String("authority", "", "PEM file of trusted authorities: TLS is used")
	certificate = flag.String("certificate", "", "PEM file with the client's key and certificate")
	mechanism   = flag.String("mechanism", "", "of SASL, none without")
	user        = flag.String("user", "", "")
	isToken     = flag.Bool("token", false, "user and password are those of a delegation token")
	topic       = flag.String("topic", "", "to write to and to read")
	records     = flag.Int("records", 50, "")
)

func main() {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	opts := []kgo.Opt{kgo.SeedBrokers(*seed), kgo.ConsumeTopics(*topic), kgo.AllowAutoTopicCreation()}
	opts = append(opts, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(-1))
	if *authority != "" {
		config, err := trusting()
		if err != nil {
			return err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if *mechanism != "" {
		opts = append(opts, kgo.SASL(login()))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	for i := 0; i < *records; i++ {
		record := &kgo.Record{Topic: *topic, Value: fmt.Appendf(nil, "value %d", i)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	for found := 0; found < *records; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(bytes.TrimSpace(record.Value)))
			found++
		})
	}
	return nil
}

func trusting() (*tls.Config, error) {
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// The password is read from the environment: other users of the machine see command lines.
func login() sasl.Mechanism {
	password := os.Getenv("LOGIN_PASSWORD")
	switch *mechanism {
	case "PLAIN":
		return plain.Auth{User: *user, Pass: password}.AsMechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: *user, Pass: password, IsToken: *isToken}.AsSha256Mechanism()
	default:
		return scram.Auth{User: *user, Pass: password, IsToken: *isToken}.AsSha512Mechanism()
	}
}
