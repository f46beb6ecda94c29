import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;

import io.a2a.grpc.utils.JSONRPCUtils;
import io.a2a.jsonrpc.common.json.IdJsonMappingException;
import io.a2a.jsonrpc.common.json.JsonProcessingException;
import io.a2a.jsonrpc.common.json.JsonUtil;
import io.a2a.jsonrpc.common.json.MethodNotFoundJsonMappingException;
import io.a2a.jsonrpc.common.wrappers.A2AErrorResponse;
import io.a2a.jsonrpc.common.wrappers.A2ARequest;
import io.a2a.jsonrpc.common.wrappers.A2AResponse;
import io.a2a.jsonrpc.common.wrappers.CancelTaskRequest;
import io.a2a.jsonrpc.common.wrappers.GetTaskRequest;
import io.a2a.jsonrpc.common.wrappers.SendMessageRequest;
import io.a2a.jsonrpc.common.wrappers.SendStreamingMessageRequest;
import io.a2a.jsonrpc.common.wrappers.SubscribeToTaskRequest;
import io.a2a.server.ServerCallContext;
import io.a2a.server.agentexecution.AgentExecutor;
import io.a2a.server.agentexecution.RequestContext;
import io.a2a.server.auth.UnauthenticatedUser;
import io.a2a.server.events.InMemoryQueueManager;
import io.a2a.server.events.MainEventBus;
import io.a2a.server.events.MainEventBusProcessor;
import io.a2a.server.extensions.A2AExtensions;
import io.a2a.server.requesthandlers.DefaultRequestHandler;
import io.a2a.server.tasks.AgentEmitter;
import io.a2a.server.tasks.InMemoryPushNotificationConfigStore;
import io.a2a.server.tasks.InMemoryTaskStore;
import io.a2a.server.util.sse.SseFormatter;
import io.a2a.spec.A2AError;
import io.a2a.spec.AgentCapabilities;
import io.a2a.spec.AgentCard;
import io.a2a.spec.AgentInterface;
import io.a2a.spec.AgentSkill;
import io.a2a.spec.DataPart;
import io.a2a.spec.FilePart;
import io.a2a.spec.FileWithBytes;
import io.a2a.spec.InvalidRequestError;
import io.a2a.spec.JSONParseError;
import io.a2a.spec.MethodNotFoundError;
import io.a2a.spec.Part;
import io.a2a.spec.TextPart;
import io.a2a.spec.UnsupportedOperationError;
import io.a2a.transport.jsonrpc.handler.JSONRPCHandler;

/**
 * An agent on the handlers of the Java SDK of A2A, which asks a model. Its arguments are
 * as in serve.py. The SDK's own server needs Quarkus; here the JDK's brings the requests.
 */
class JavaAgent {
    static final ExecutorService THREADS = Executors.newCachedThreadPool();
    static JSONRPCHandler handler;

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        String token = args.length > 2 ? args[2] : "";
        AgentCard card = AgentCard.builder().name("Talker").description("Talks.").version("1.0.0")
            .supportedInterfaces(List.of(new AgentInterface("JSONRPC", "http://127.0.0.1:" + port + "/")))
            .capabilities(AgentCapabilities.builder().streaming(true).build())
            .defaultInputModes(List.of("text/plain")).defaultOutputModes(List.of("text/plain"))
            .skills(List.of(AgentSkill.builder().id("talk").name("Talk").description("Talks.").tags(List.of("talk")).build()))
            .build();
        System.setProperty("io.a2a.transport.skipValidation", "true"); // it looks for Quarkus
        InMemoryTaskStore tasks = new InMemoryTaskStore();
        MainEventBus bus = new MainEventBus();
        InMemoryQueueManager queues = new InMemoryQueueManager(tasks, bus);
        MainEventBusProcessor processor = new MainEventBusProcessor(bus, tasks, event -> { }, queues);
        THREADS.execute(processor); // as a container would, after construction
        handler = new JSONRPCHandler(card, DefaultRequestHandler.create(
            new Talker(args[1]), tasks, queues, new InMemoryPushNotificationConfigStore(), processor, THREADS, THREADS), THREADS);

        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(THREADS);
        server.createContext("/.well-known/agent-card.json", x -> answer(x, 200, json(card)));
        server.createContext("/", x -> {
            if (token.isEmpty() || ("Bearer " + token).equals(x.getRequestHeaders().getFirst("Authorization"))) {
                call(x);
                return;
            }
            x.getResponseHeaders().set("WWW-Authenticate", "Bearer");
            answer(x, 401, "");
        });
        server.start();
        System.out.println("ready");
        System.in.readAllBytes();
        System.exit(0);
    }

    static String json(Object value) {
        try {
            return JsonUtil.toJson(value);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static void answer(HttpExchange x, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        x.getResponseHeaders().set("Content-Type", "application/json");
        x.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        x.getResponseBody().write(bytes);
        x.close();
    }

    static void call(HttpExchange x) throws IOException {
        ServerCallContext context = new ServerCallContext(UnauthenticatedUser.INSTANCE, new HashMap<>(),
            A2AExtensions.getRequestedExtensions(x.getRequestHeaders().getOrDefault("A2A-Extensions", List.of())),
            x.getRequestHeaders().getFirst("A2A-Version"));
        A2AResponse<?> response;
        try {
            String body = new String(x.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            A2ARequest<?> request = JSONRPCUtils.parseRequestBody(body, "");
            if (request instanceof SendStreamingMessageRequest r) {
                stream(x, handler.onMessageSendStream(r, context), context);
                return;
            } else if (request instanceof SubscribeToTaskRequest r) {
                stream(x, handler.onSubscribeToTask(r, context), context);
                return;
            } else if (request instanceof SendMessageRequest r) {
                response = handler.onMessageSend(r, context);
            } else if (request instanceof GetTaskRequest r) {
                response = handler.onGetTask(r, context);
            } else if (request instanceof CancelTaskRequest r) {
                response = handler.onCancelTask(r, context);
            } else {
                response = new A2AErrorResponse(request.getId(), new UnsupportedOperationError());
            }
        } catch (A2AError e) {
            response = new A2AErrorResponse(e);
        } catch (MethodNotFoundJsonMappingException e) {
            response = new A2AErrorResponse(e.getId(), new MethodNotFoundError(null, e.getMessage(), null));
        } catch (IdJsonMappingException e) {
            response = new A2AErrorResponse(e.getId(), new InvalidRequestError(null, e.getMessage(), null));
        } catch (JsonProcessingException e) {
            response = new A2AErrorResponse(new JSONParseError(e.getMessage()));
        }
        String sse = SseFormatter.formatResponseAsSSE(response, 0);
        answer(x, 200, sse.substring(sse.indexOf("data: ") + 6).strip());
    }

    static void stream(HttpExchange x, Flow.Publisher<? extends A2AResponse<?>> responses, ServerCallContext context) throws IOException {
        x.getResponseHeaders().set("Content-Type", "text/event-stream");
        x.sendResponseHeaders(200, 0);
        CountDownLatch over = new CountDownLatch(1);
        responses.subscribe(new Flow.Subscriber<A2AResponse<?>>() {
            Flow.Subscription subscription;
            long id;

            public void onSubscribe(Flow.Subscription s) {
                subscription = s;
                s.request(1);
            }

            public void onNext(A2AResponse<?> response) {
                try {
                    x.getResponseBody().write(SseFormatter.formatResponseAsSSE(response, id++).getBytes(StandardCharsets.UTF_8));
                    x.getResponseBody().flush();
                    subscription.request(1);
                } catch (IOException e) { // the client has gone
                    context.invokeEventConsumerCancelCallback();
                    subscription.cancel();
                    over.countDown();
                }
            }

            public void onError(Throwable e) {
                over.countDown();
            }

            public void onComplete() {
                over.countDown();
            }
        });
        try {
            over.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        x.close();
    }

    static class Talker implements AgentExecutor {
        final String model;
        final HttpClient web = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        final Map<String, List<Object>> said = new ConcurrentHashMap<>(); // by context
        final Map<String, InputStream> running = new ConcurrentHashMap<>(); // by task

        Talker(String model) {
            this.model = model;
        }

        public void execute(RequestContext context, AgentEmitter emitter) throws A2AError {
            boolean goesOn = context.getTask() != null;
            if (!goesOn) {
                emitter.submit();
            }
            emitter.startWork();
            String text = context.getUserInput("");
            if (goesOn) {
                emitter.addArtifact(List.of(new TextPart("answered: " + text)));
                emitter.complete();
            } else if (text.contains("ask me")) {
                emitter.requiresInput(emitter.newAgentMessage(List.of(new TextPart("How loud?")), null));
            } else if (text.contains("draw a chart")) {
                emitter.addArtifact(List.of(new DataPart(Map.of("bars", 3)),
                    new FilePart(new FileWithBytes("image/png", "chart.png", "iVBORw0KGgo="))));
                emitter.complete();
            } else {
                talk(context, emitter);
            }
        }

        void talk(RequestContext context, AgentEmitter emitter) {
            List<Object> messages = said.computeIfAbsent(context.getContextId(), id -> new ArrayList<>());
            messages.add(Map.of("role", "user", "content", context.getMessage().parts().stream().map(Talker::content).toList()));
            String body = new Gson().toJson(Map.of("stream", true, "messages", messages));
            try {
                var response = web.send(HttpRequest.newBuilder(URI.create(model + "/chat/completions"))
                    .POST(HttpRequest.BodyPublishers.ofString(body)).build(), BodyHandlers.ofInputStream());
                if (response.statusCode() != 200) {
                    emitter.fail(emitter.newAgentMessage(List.of(new TextPart("the model is not well")), null));
                    return;
                }
                running.put(context.getTaskId(), response.body());
                boolean append = false;
                Scanner lines = new Scanner(response.body(), StandardCharsets.UTF_8);
                while (lines.hasNextLine()) {
                    String line = lines.nextLine();
                    if (!line.startsWith("data: {")) {
                        continue;
                    }
                    JsonObject delta = JsonParser.parseString(line.substring(6)).getAsJsonObject()
                        .getAsJsonArray("choices").get(0).getAsJsonObject().getAsJsonObject("delta");
                    if (delta.has("content")) {
                        emitter.addArtifact(List.of(new TextPart(delta.get("content").getAsString())), "answer", null, null, append, false);
                        append = true;
                    }
                }
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
            if (running.remove(context.getTaskId()) != null) { // nobody canceled it
                emitter.complete();
            }
        }

        public void cancel(RequestContext context, AgentEmitter emitter) throws A2AError {
            InputStream answer = running.remove(context.getTaskId());
            emitter.cancel();
            try {
                if (answer != null) {
                    answer.close();
                }
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }

        static Map<String, Object> content(Part<?> part) {
            if (part instanceof TextPart text) {
                return Map.of("type", "text", "text", text.text());
            }
            if (part instanceof DataPart data) {
                return Map.of("type", "text", "text", new Gson().toJson(data.data()));
            }
            return Map.of("type", "file");
        }
    }
}
