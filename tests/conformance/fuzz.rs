//! Sends random requests to both hubs and compares their responses.
//!
//! A seed determines a sequence of requests in its own namespace. `FUZZ_SEQUENCES` sets the number of seeds; runs
//! always include the seeds in `seeds.txt`, whose responses once differed. In half of the sequences, those from
//! [`WITH_USERS`] on, users with few permissions send some of the requests.

use std::collections::BTreeSet;

use object::Random;
use serde_json::{Value, json};

use super::api::Api;
use super::exchange::{Exchange, Step};

/// Number of requests in a sequence.
const STEPS: usize = 12;

/// Default number of seeds.
const SEQUENCES: u64 = 200;

/// The first seed whose sequence includes users.
const WITH_USERS: u64 = 1_000_000;

/// The RBAC rules of the user `bob` in a sequence.
const RULES: &str = r#"[
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["*"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    {"apiGroups": ["conformance.wheelwright.dev"], "resources": ["widgets"], "verbs": ["update", "patch", "delete"]},
    {"apiGroups": ["conformance.wheelwright.dev"], "resources": ["widgets/status"], "verbs": ["get"]}
]"#;

/// Returns the seeds whose responses still differ.
pub(super) fn open_seeds() -> Vec<u64> {
    let lines = include_str!("open_seeds.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.parse().unwrap()).collect()
}

/// Returns the seeds of this run.
pub(super) fn seeds() -> Vec<u64> {
    let count = std::env::var("FUZZ_SEQUENCES").map_or(SEQUENCES, |text| text.parse().unwrap());
    let first = std::env::var("FUZZ_FIRST").map_or(0, |text| text.parse().unwrap());
    let kept = include_str!("seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let new = (first..first + count.div_ceil(2)).chain((first..first + count / 2).map(|n| WITH_USERS + n));
    let mut seeds: Vec<u64> = kept.map(|line| line.parse().unwrap()).chain(new).collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}

/// Plays a sequence on both hubs; returns the first response that differs.
pub(super) async fn play(seed: u64, embedded: &kube::Client, real: &kube::Client) -> Option<String> {
    let steps = sequence(seed);
    let namespace = format!("fuzz-{seed}");
    let (here, there) = tokio::join!(
        answers(Api::new(embedded.clone(), namespace.clone()), &steps),
        answers(Api::new(real.clone(), namespace.clone()), &steps)
    );
    let first = (0..steps.len()).find(|i| here[*i] != there[*i])?;
    let before: Vec<String> = steps[..first].iter().map(|step| format!("    {step}")).collect();
    Some(format!(
        "seed {seed}: {}\n    embedded       {}\n    kube-apiserver {}\n  after\n{}",
        steps[first],
        here[first],
        there[first],
        before.join("\n")
    ))
}

async fn answers(api: impl Future<Output = Api>, steps: &[Step]) -> Vec<Value> {
    let api = api.await;
    if steps.iter().any(Step::has_user) {
        let mut exchange = Exchange::new(api.clone());
        for step in rights() {
            exchange.send(&step).await;
        }
    }
    let mut exchange = Exchange::new(api);
    let mut answers = Vec::new();
    for step in steps {
        let mut answer = exchange.send(step).await;
        // Warnings, and the note that rules were not checked, may be missing if there are other errors, depending
        // on the order in which the parts of kube-apiserver ran.
        if answer["code"].as_u64() >= Some(400) {
            answer.as_object_mut().unwrap().remove("warnings");
            if let Some(causes) = answer.get_mut("causes").and_then(Value::as_array_mut) {
                causes.retain(|cause| cause[0] != "<nil>");
            }
        }
        answers.push(answer);
    }
    answers
}

fn sequence(seed: u64) -> Vec<Step> {
    let mut draw = Draw { random: Random::new(seed), lists: BTreeSet::new() };
    let steps: Vec<Step> = (0..STEPS).map(|before| draw.step(before)).collect();
    let users = ["", "", "", "{ns}-bob", "{ns}-bob", "{ns}-eve"];
    let users: &[&str] = if seed < WITH_USERS { &[""] } else { &users };
    steps.into_iter().map(|step| step.by(draw.one(users))).collect()
}

/// Returns the steps that grant the user `bob` his permissions and wait until they take effect.
fn rights() -> [Step; 3] {
    let rules: Value = serde_json::from_str(RULES).unwrap();
    let group = "rbac.authorization.k8s.io";
    [
        Step::new("POST roles", json!({ "metadata": { "name": "few" }, "rules": rules })),
        Step::new(
            "POST rolebindings",
            json!({ "metadata": { "name": "few" }, "roleRef": { "apiGroup": group, "kind": "Role", "name": "few" },
                "subjects": [{ "apiGroup": group, "kind": "User", "name": "{ns}-bob" }] }),
        ),
        Step::new("GET leases as {ns}-bob until 200", Value::Null),
    ]
}

struct Draw {
    random: Random,
    /// The numbers of the responses that are lists.
    lists: BTreeSet<usize>,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.draw() % bound as u64).unwrap()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Returns true once in `times` on average.
    fn rarely(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns a step; `before` is the number of steps before it.
    fn step(&mut self, before: usize) -> Step {
        let resource = self.one(&["configmaps", "widgets", "widgets", "secrets", "leases", "services"]);
        let name = self.one(&["a", "a", "b"]);
        let path = format!("{resource}/{name}");
        match self.below(14) {
            0..=2 => Step::new(format!("POST {resource}{}", self.write_query()), self.whole(resource, name)),
            3 => Step::new(
                format!("PUT {path}{}", self.write_query()),
                self.replacement(resource, name, before),
            ),
            4..=5 => Step::new(format!("MERGE {path}{}", self.write_query()), self.part(resource)),
            6 => Step::new(format!("JSON {path}"), self.operations()),
            7 => Step::new(format!("STRATEGIC {path}"), self.part(resource)),
            8..=9 => {
                let manager = self.one(&["one", "two"]);
                let force = self.one(&["", "&force=true"]);
                let line = format!("APPLY {path}?fieldManager={manager}{force}");
                Step::new(line, self.whole(resource, name))
            }
            10 if resource == "widgets" => Step::new(
                format!("MERGE {path}/status"),
                json!({ "status": self.status(), "spec": { "size": 9 } }),
            ),
            10..=11 => Step::new(format!("DELETE {path}"), self.deletion(before)),
            12 => Step::new(format!("GET {path}"), Value::Null),
            _ => {
                self.lists.insert(before + 1);
                let mut query = self.list_query();
                // A limited list has a continue token if any object follows. In each namespace, kube-root-ca.crt,
                // which kube-controller-manager writes, follows every config map of a case.
                if resource == "configmaps" {
                    query = query.replace("&limit=1", "");
                }
                Step::new(format!("GET {resource}?{query}"), Value::Null)
            }
        }
    }

    fn write_query(&mut self) -> &'static str {
        self.one(&[
            "",
            "",
            "",
            "?fieldManager=three",
            "?dryRun=All",
            "?fieldValidation=Strict",
            "?fieldValidation=Ignore",
            "?fieldManager=one&fieldValidation=Warn",
        ])
    }

    fn list_query(&mut self) -> String {
        self.one(&[
            "labelSelector=f",
            "labelSelector=f=1",
            "labelSelector=f,f!=1",
            "labelSelector=f in (1,2)",
            "labelSelector=f&limit=1",
            "labelSelector=f&fieldSelector=metadata.name=a",
            "fieldSelector=metadata.name!=kube-root-ca.crt,metadata.name=b",
            "labelSelector=f,,g",
            "fieldSelector=spec.mode=Fast",
            "labelSelector=f&resourceVersion=0",
            "labelSelector=f&resourceVersion=1&resourceVersionMatch=x",
        ])
        .replace(' ', "%20")
    }

    fn metadata(&mut self, name: &str) -> Value {
        let mut metadata = json!({ "name": name });
        if !self.rarely(3) {
            metadata["labels"] = json!({ "f": self.one(&["1", "2"]) });
        }
        if self.rarely(6) {
            metadata["annotations"] = json!({ self.one(&["n", "m/o"]): self.one(&["x", "y"]) });
        }
        if self.rarely(8) {
            metadata["finalizers"] = self.one(&[json!(["a.b/c"]), json!(["a.b/c", "a.b/d"]), json!([])]);
        }
        if self.rarely(15) {
            metadata["labels"] = self.one(&[json!({ "f": "a b" }), json!({ "a b": "c" }), json!(null)]);
        }
        if self.rarely(20) {
            metadata["name"] = self.one(&[json!("A"), json!("c")]);
        }
        metadata
    }

    fn whole(&mut self, resource: &str, name: &str) -> Value {
        let mut object = self.part(resource);
        if !object.is_object() {
            object = json!({});
        }
        object["metadata"] = self.metadata(name);
        object
    }

    fn replacement(&mut self, resource: &str, name: &str, before: usize) -> Value {
        let mut object = self.whole(resource, name);
        if before > 0 && !self.rarely(3) {
            let answer = 1 + self.below(before);
            // If nobody else writes to the hub, the version of a list is also that of some object.
            if !self.lists.contains(&answer) {
                object["metadata"]["resourceVersion"] = format!("${answer}").into();
            }
        }
        object
    }

    /// Returns fields of an object outside its metadata, or occasionally inside.
    fn part(&mut self, resource: &str) -> Value {
        if self.rarely(9) {
            return json!({ "metadata": self.changed_metadata() });
        }
        match resource {
            "configmaps" => self.one(&[
                json!({ "data": { "k": "v" } }),
                json!({ "data": { "k": "w", "l": "x" } }),
                json!({ "binaryData": { "b": "aGk=" } }),
                json!({ "data": { "a b": "v" } }),
                json!({ "other": 1 }),
                json!({}),
            ]),
            "secrets" => self.one(&[
                json!({ "stringData": { "k": "v" } }),
                json!({ "data": { "k": "aGk=" } }),
                json!({ "type": "a.b/c" }),
                json!({}),
            ]),
            "leases" => self.one(&[
                json!({ "spec": { "holderIdentity": "me" } }),
                json!({ "spec": { "holderIdentity": "you", "leaseDurationSeconds": 10 } }),
                json!({ "spec": { "leaseDurationSeconds": 0 } }),
                json!({ "spec": { "renewTime": "2026-01-01T00:00:00.000000Z" } }),
                json!({ "spec": { "other": 1 } }),
                json!({ "spec": {} }),
            ]),
            "services" => self.one(&[
                json!({ "spec": { "ports": [{ "port": 80 }] } }),
                json!({ "spec": { "ports": [{ "port": 80, "name": "a" }, { "port": 81, "name": "b" }] } }),
                json!({ "spec": { "ports": [{ "port": 80, "name": "x" }], "selector": { "a": "b" } } }),
                json!({ "spec": { "ports": [{ "port": 0 }] } }),
                json!({ "spec": { "ports": [{ "port": 80 }, { "port": 81 }] } }),
                json!({ "spec": { "selector": { "c": "d" } } }),
                json!({ "spec": { "ports": [] } }),
            ]),
            _ => json!({ "spec": self.spec() }),
        }
    }

    fn changed_metadata(&mut self) -> Value {
        self.one(&[
            json!({ "labels": { "f": "2" } }),
            json!({ "labels": { "f": null } }),
            json!({ "labels": null }),
            json!({ "finalizers": [] }),
            json!({ "finalizers": null }),
            json!({ "finalizers": ["a.b/e"] }),
            json!({ "annotations": { "n": "z" } }),
            json!({ "name": "b" }),
            json!({ "resourceVersion": "1" }),
            json!({ "uid": "x" }),
            json!({ "managedFields": [{}] }),
            json!({ "managedFields": null }),
            json!({ "generation": 9 }),
        ])
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({});
        for _ in 0..=self.below(2) {
            let (field, value) = self.one(&[
                ("size", json!(4)),
                ("size", json!(7)),
                ("size", json!(0)),
                ("mode", json!("Fast")),
                ("mode", json!("Slow")),
                ("mode", json!("Odd")),
                ("text", json!("abc")),
                ("text", json!("ABC")),
                ("replicas", json!(2)),
                ("tags", json!(["a"])),
                ("tags", json!(["a", "b"])),
                ("tags", json!([])),
                ("ports", json!([{ "port": 80 }])),
                ("ports", json!([{ "port": 80, "name": "x" }, { "port": 81 }])),
                ("ports", json!([{ "port": 80, "protocol": "UDP" }])),
                ("ports", json!([{ "name": "x" }])),
                ("steps", json!(["a"])),
                ("steps", json!(["b", "a", "a"])),
                ("free", json!({ "x": 1 })),
                ("free", json!({ "x": { "y": [1, null] } })),
                ("amount", json!(1)),
                ("amount", json!("5%")),
                ("amount", json!(1.5)),
                ("settings", json!({ "a": "b" })),
                ("settings", json!({ "c": "d" })),
                ("nested", json!({})),
                ("nested", json!({ "inner": "z" })),
                ("fixed", json!("a")),
                ("fixed", json!("b")),
                ("low", json!(5)),
                ("high", json!(3)),
                ("high", json!(8)),
                ("other", json!(1)),
            ]);
            spec[field] = value;
        }
        spec
    }

    fn status(&mut self) -> Value {
        self.one(&[
            json!({ "phase": "Up" }),
            json!({ "phase": "Down", "replicas": 1 }),
            json!({ "conditions": [{ "type": "A", "status": "True" }] }),
            json!({ "other": 1 }),
            json!(null),
        ])
    }

    fn operations(&mut self) -> Value {
        let count = 1 + self.below(2);
        let all = [
            json!({ "op": "add", "path": "/data", "value": { "k": "v" } }),
            json!({ "op": "add", "path": "/data/k", "value": "z" }),
            json!({ "op": "remove", "path": "/data/k" }),
            json!({ "op": "replace", "path": "/data/k", "value": "y" }),
            json!({ "op": "test", "path": "/data/k", "value": "v" }),
            json!({ "op": "copy", "from": "/data", "path": "/data2" }),
            json!({ "op": "move", "from": "/data/k", "path": "/data/m" }),
            json!({ "op": "add", "path": "/metadata/labels", "value": { "f": "1" } }),
            json!({ "op": "add", "path": "/metadata/labels/f", "value": "2" }),
            json!({ "op": "remove", "path": "/metadata/finalizers" }),
            json!({ "op": "remove", "path": "/metadata/labels/f" }),
            json!({ "op": "replace", "path": "/spec/size", "value": 5 }),
            json!({ "op": "add", "path": "/spec/tags", "value": ["x"] }),
            json!({ "op": "add", "path": "/spec/tags/-", "value": "y" }),
            json!({ "op": "add", "path": "/spec/tags/0", "value": "y" }),
            json!({ "op": "remove", "path": "/spec" }),
            json!({ "op": "replace", "path": "/metadata/name", "value": "q" }),
            json!({ "op": "add", "path": "/spec/holderIdentity", "value": "op" }),
        ];
        (0..count).map(|_| self.one(&all)).collect()
    }

    fn deletion(&mut self, before: usize) -> Value {
        let answer = 1 + self.below(before.max(1));
        self.one(&[
            Value::Null,
            Value::Null,
            json!({}),
            json!({ "propagationPolicy": "Background" }),
            json!({ "preconditions": { "resourceVersion": format!("${answer}1") } }),
            json!({ "dryRun": ["All"] }),
            json!({ "propagationPolicy": "Odd" }),
        ])
    }
}
