//! `wheelwright mcp` as an assistant uses it: JSON-RPC on standard input and output, in front of a hub.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::cli::Cli;
use crate::rollout::stopped_hub;

/// Maximum wait for an answer, sized for a busy machine.
const WITHIN: Duration = Duration::from_secs(120);

/// A client that has introduced itself to a server.
struct Client {
    server: Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    last: u64,
}

impl Client {
    async fn start(kubeconfig: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wheelwright"));
        command.arg("mcp").args(options).arg("--kubeconfig").arg(kubeconfig);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let answers = BufReader::new(server.stdout.take().unwrap()).lines();
        let mut client = Self { requests: server.stdin.take().unwrap(), answers, server, last: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let welcome = client.request("initialize", hello).await;
        assert_eq!(welcome["result"]["serverInfo"]["name"], "wheelwright", "{welcome}");
        client.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.requests.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.send(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
        let answer = timeout(WITHIN, self.answers.next_line()).await.unwrap().unwrap().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], self.last, "{answer}");
        answer
    }

    /// Calls a tool. Returns its text, and whether that is an error.
    async fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        let result = &answer["result"];
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
    }

    async fn tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_reads_the_fleet_and_approves_only_if_it_may() {
    let dir = tempfile::tempdir().unwrap();
    let (_hub, _, Cli { kubeconfig }) = stopped_hub(dir.path()).await;

    let mut reader = Client::start(&kubeconfig, &[]).await;
    let tools = reader.tools().await;
    assert!(
        ["status", "explain_rollout", "plan", "simulate_rollout"]
            .iter()
            .all(|tool| tools.contains(&(*tool).into()))
    );
    let changes = |tool: &String| tool.ends_with("approve") || tool.ends_with("undo");
    assert!(!tools.iter().any(changes), "{tools:?}");
    let (fleet, is_error) = reader.call("status", json!({})).await;
    assert!(!is_error && fleet.contains("managed-serviceaccount  0 of 3 clusters done"), "{fleet}");
    let (worst, is_error) = reader.call("top", json!({"limit": 1})).await;
    assert!(!is_error && worst.starts_with("CLUSTER ") && worst.lines().count() <= 3, "{worst}");
    let (missing, is_error) = reader.call("explain_rollout", json!({"name": "--help"})).await;
    assert!(is_error && missing.contains("error: ") && missing.ends_with("exit status 1\n"), "{missing}");
    let unknown = reader.request("tools/call", json!({"name": "repo_approve", "arguments": {}})).await;
    assert_eq!(unknown["error"]["message"], "there is no tool repo_approve");
    drop(reader.requests);
    let ended = timeout(WITHIN, reader.server.wait_with_output()).await.unwrap().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));

    let mut approver = Client::start(&kubeconfig, &["--approvals"]).await;
    let tools: Vec<String> = approver.tools().await.into_iter().filter(changes).collect();
    assert_eq!(tools, ["repo_approve", "rollout_approve", "rollout_undo"]);
    let blind = json!({"name": "rollout_approve", "arguments": {"name": "managed-serviceaccount"}});
    let refused = approver.request("tools/call", blind).await;
    assert_eq!(refused["error"]["message"], "rollout approve requires the argument tokens");
}
