// Cities: what a Go program does with duramen.v1.KV.  ./generate && go run . localhost:7080 [another server ...]
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	pb "example.com/cities/duramen/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const table = "cities"

// put writes at one server after the other until one answers: this put may be made twice.
func put(servers []pb.KVClient, request *pb.KVPutRequest) *pb.KVPutResponse {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		reply, err := servers[try%len(servers)].Put(ctx, request)
		cancel()
		if code := status.Code(err); try == 50 || code != codes.Unavailable && code != codes.DeadlineExceeded {
			return must(reply, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func must[T any](reply T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return reply
}

func main() {
	servers, ctx := []pb.KVClient{}, context.Background()
	for _, at := range os.Args[1:] {
		channel := must(grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials())))
		_, err := pb.NewTablesClient(channel).Create(ctx, &pb.CreateTableRequest{Name: table, Partitions: 6})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			log.Fatal(err)
		}
		servers = append(servers, pb.NewKVClient(channel))
	}
	here, there := servers[0], servers[len(servers)-1]
	watch := must(here.Watch(ctx, &pb.KVWatchRequest{Table: table}))
	must(watch.Recv()) // the watch has begun

	oslo := must(here.Put(ctx, &pb.KVPutRequest{Table: table, Key: []byte("Oslo"), Value: []byte("Norway")}))
	got := must(there.Get(ctx, &pb.KVGetRequest{Table: table, Key: []byte("Oslo"), After: oslo.Token}))
	fmt.Printf("get %s %t\n", got.Value, got.Version == oslo.Version)
	_, err := here.Put(ctx, &pb.KVPutRequest{Table: table, Key: []byte("Oslo"), IfAbsent: true})
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fmt.Printf("refused %s %t\n", info.Reason, info.Metadata["actual"] == fmt.Sprint(oslo.Version))
		}
	}
	change := must(watch.Recv()).Changes[0]
	fmt.Printf("watch %s %s\n", change.Key, change.Value)

	token := oslo.Token
	for n := 0; n < 200; n++ {
		key := []byte(fmt.Sprintf("row%03d", n))
		token = put(servers, &pb.KVPutRequest{Table: table, Key: key, Value: key, After: token}).Token
		fmt.Printf("put %s\n", key)
	}
	rows := 0
	scan := must(there.Scan(ctx, &pb.KVScanRequest{Table: table, Prefix: []byte("row"), After: token}))
	for page, err := scan.Recv(); err != io.EOF; page, err = scan.Recv() {
		rows += len(must(page, err).Entries)
	}
	fmt.Printf("scan %d\n", rows)
}
