import static com.google.protobuf.ByteString.copyFromUtf8;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import duramen.v1.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import java.util.*;
import java.util.concurrent.TimeUnit;

/** What a Java program does with duramen.v1.KV.  mvn -q compile && java -cp 'target/classes:target/dependency/*' Cities localhost:7080 */
public class Cities {
  static final String TABLE = "cities";

  /** Write at one server after the other until one answers: this put may be made twice. */
  static KVPutResponse put(List<KVGrpc.KVBlockingStub> servers, KVPutRequest request) throws Exception {
    for (int attempt = 0; ; attempt++) {
      try {
        return servers.get(attempt % servers.size()).withDeadlineAfter(5, TimeUnit.SECONDS).put(request);
      } catch (StatusRuntimeException error) {
        // UNKNOWN is what grpc-java gives for a connection that is closed as the call begins.
        var passing = EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED, Status.Code.UNKNOWN);
        if (attempt == 50 || !passing.contains(error.getStatus().getCode())) throw error;
        Thread.sleep(100);
      }
    }
  }

  static ErrorInfo errorInfo(StatusRuntimeException error) throws InvalidProtocolBufferException {
    for (var detail : StatusProto.fromThrowable(error).getDetailsList()) {
      if (detail.is(ErrorInfo.class)) return detail.unpack(ErrorInfo.class);
    }
    throw error;
  }

  public static void main(String[] addresses) throws Exception {
    var servers = new ArrayList<KVGrpc.KVBlockingStub>();
    for (String at : addresses) {
      var channel = ManagedChannelBuilder.forTarget(at).usePlaintext().build();
      try {
        TablesGrpc.newBlockingStub(channel)
            .create(CreateTableRequest.newBuilder().setName(TABLE).setPartitions(6).build());
      } catch (StatusRuntimeException error) {
        if (error.getStatus().getCode() != Status.Code.ALREADY_EXISTS) throw error;
      }
      servers.add(KVGrpc.newBlockingStub(channel));
    }
    var here = servers.get(0);
    var there = servers.get(servers.size() - 1);
    var watch = here.watch(KVWatchRequest.newBuilder().setTable(TABLE).build());
    watch.next(); // the watch has begun

    var oslo = KVPutRequest.newBuilder().setTable(TABLE).setKey(copyFromUtf8("Oslo")).setValue(copyFromUtf8("Norway"));
    var put = here.put(oslo.build());
    var get = KVGetRequest.newBuilder().setTable(TABLE).setKey(copyFromUtf8("Oslo")).setAfter(put.getToken()).build();
    var got = there.get(get);
    System.out.println("get " + got.getValue().toStringUtf8() + " " + (got.getVersion() == put.getVersion()));
    try {
      here.put(oslo.setIfAbsent(true).build());
    } catch (StatusRuntimeException error) {
      var info = errorInfo(error);
      boolean same = info.getMetadataOrThrow("actual").equals(Long.toString(put.getVersion()));
      System.out.println("refused " + info.getReason() + " " + same);
    }
    var change = watch.next().getChanges(0);
    System.out.println("watch " + change.getKey().toStringUtf8() + " " + change.getValue().toStringUtf8());

    var row = KVPutRequest.newBuilder().setTable(TABLE).setAfter(put.getToken());
    for (int n = 0; n < 200; n++) {
      var key = copyFromUtf8(String.format("row%03d", n));
      row.setAfter(put(servers, row.setKey(key).setValue(key).build()).getToken());
      System.out.println("put " + key.toStringUtf8());
    }
    var scan = KVScanRequest.newBuilder().setTable(TABLE).setPrefix(copyFromUtf8("row")).setAfter(row.getAfter()).build();
    int rows = 0;
    for (var pages = there.scan(scan); pages.hasNext(); ) rows += pages.next().getEntriesCount();
    System.out.println("scan " + rows);
    System.exit(0);
  }
}
