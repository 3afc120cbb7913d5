// A program with go-redis, TLS and a token: redis PROTOCOL ADDRESS USER TABLE, with certs/ca.crt in the current folder
// and the token in TOKEN; without one it says no AUTH. It prints what each command answers.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

func say[T any](command string, answer T, err error) {
	if err != nil {
		fmt.Println(command, err)
		return
	}
	fmt.Println(command, answer)
}

func main() {
	protocol, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	authority, err := os.ReadFile("certs/ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := redis.NewClient(&redis.Options{
		Addr: os.Args[2], Protocol: protocol, Username: os.Args[3], Password: os.Getenv("TOKEN"),
		TLSConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, MaxRetries: -1,
	})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	connection := client.Conn() // one connection, for SELECT
	defer connection.Close()
	run := func(name string, words ...any) {
		command := redis.NewCmd(ctx, words...)
		err := connection.Process(ctx, command)
		say(name, command.Val(), err)
	}
	run("whoami", "ACL", "WHOAMI")
	run("select", "SELECT", os.Args[4])
	run("set", "SET", "redis", "by Go")
	run("get", "GET", "redis")
}
