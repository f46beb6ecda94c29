import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

import com.google.gson.Gson;

import io.a2a.client.Client;
import io.a2a.client.ClientEvent;
import io.a2a.client.TaskEvent;
import io.a2a.client.TaskUpdateEvent;
import io.a2a.client.config.ClientConfig;
import io.a2a.client.http.A2ACardResolver;
import io.a2a.client.transport.jsonrpc.JSONRPCTransport;
import io.a2a.client.transport.jsonrpc.JSONRPCTransportConfigBuilder;
import io.a2a.client.transport.spi.interceptors.auth.AuthInterceptor;
import io.a2a.spec.Artifact;
import io.a2a.spec.DataPart;
import io.a2a.spec.FilePart;
import io.a2a.spec.FileWithBytes;
import io.a2a.spec.Message;
import io.a2a.spec.Part;
import io.a2a.spec.Task;
import io.a2a.spec.TaskArtifactUpdateEvent;
import io.a2a.spec.TaskIdParams;
import io.a2a.spec.TaskState;
import io.a2a.spec.TextPart;

/** A client on the Java SDK of A2A. What it reads and tells is as in converse.py. */
class JavaClient {
    static final Gson JSON = new Gson();
    static Client client;
    static String context, task;

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> heard;
            try {
                if (client == null) {
                    client = connect(args[0], args.length > 1 ? args[1] : "");
                }
                heard = new Turn(JSON.fromJson(line, Line.class)).said();
            } catch (ExecutionException e) {
                heard = Map.of("error", e.getCause().toString());
            } catch (Exception e) {
                heard = Map.of("error", e.toString());
            }
            tell("heard", heard);
        }
        System.exit(0);
    }

    static Client connect(String url, String token) throws Exception {
        JSONRPCTransportConfigBuilder transport = new JSONRPCTransportConfigBuilder();
        if (!token.isEmpty()) {
            transport.addInterceptor(new AuthInterceptor((scheme, call) -> token));
        }
        return Client.builder(new A2ACardResolver(url).getAgentCard())
            .clientConfig(new ClientConfig.Builder().setStreaming(true).build())
            .withTransport(JSONRPCTransport.class, transport).build();
    }

    static void tell(String name, Object value) {
        System.out.println(JSON.toJson(Map.of(name, value)));
    }

    /** A line of the input. */
    record Line(String say, String file, Object data, String cancel) { }

    /** What is heard of one line. */
    static class Turn {
        final Line line;
        final StringBuilder text = new StringBuilder();
        final CompletableFuture<Task> end = new CompletableFuture<>();
        int files, data;
        Task last;
        boolean canceled;

        Turn(Line line) {
            this.line = line;
        }

        Map<String, Object> said() throws Exception {
            List<Part<?>> parts = new ArrayList<>(List.of(new TextPart(line.say)));
            if (line.file != null) {
                parts.add(new FilePart(new FileWithBytes("image/png", "tiny.png", line.file)));
            }
            if (line.data != null) {
                parts.add(new DataPart(line.data));
            }
            Message message = Message.builder().role(Message.Role.ROLE_USER).parts(parts)
                .messageId(UUID.randomUUID().toString()).contextId(context).taskId(task).build();
            task = null;
            client.sendMessage(message, List.of((event, card) -> hear(event)), this::ended);
            Task over = end.get();
            Map<String, Object> heard = new LinkedHashMap<>();
            if (over.status().message() != null) {
                over.status().message().parts().forEach(p -> text.append(p instanceof TextPart t ? t.text() : ""));
            }
            if (over.status().state() == TaskState.TASK_STATE_INPUT_REQUIRED) {
                heard.put("asked", true);
                task = over.id();
            }
            heard.putAll(Map.of("text", text.toString(), "state", over.status().state().toString(), "files", files, "data", data));
            return heard;
        }

        /** What the SDK calls when the stream has ended: with null, if nothing went wrong. */
        void ended(Throwable error) {
            if (error != null) {
                end.completeExceptionally(error);
            } else if (last == null) {
                end.completeExceptionally(new IllegalStateException("the stream ended with nothing"));
            } else {
                end.complete(last);
            }
        }

        void hear(ClientEvent event) {
            if (event instanceof TaskUpdateEvent update) {
                last = update.getTask();
                if (update.getUpdateEvent() instanceof TaskArtifactUpdateEvent artifact) {
                    hear(artifact.artifact());
                }
            } else if (event instanceof TaskEvent whole) {
                last = whole.getTask();
                last.artifacts().forEach(this::hear);
            } else {
                end.completeExceptionally(new IllegalStateException("an event of type " + event.getClass().getName()));
                return;
            }
            context = last.contextId();
            TaskState state = last.status().state();
            if (state.isFinal() || state == TaskState.TASK_STATE_INPUT_REQUIRED) {
                end.complete(last);
            } else if (!canceled && line.cancel != null && text.toString().contains(line.cancel)) {
                canceled = true;
                client.cancelTask(new TaskIdParams(last.id()));
            }
        }

        void hear(Artifact artifact) {
            for (Part<?> part : artifact.parts()) {
                if (part instanceof TextPart t) {
                    tell("piece", t.text());
                    text.append(t.text());
                }
                files += part instanceof FilePart ? 1 : 0;
                data += part instanceof DataPart ? 1 : 0;
            }
        }
    }
}
