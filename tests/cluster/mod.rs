//! Journeys: what people do with git, `wheelwright`, kubectl and helm, on clusters whose nodes run pods.
//!
//! `tests/cluster/bed` starts the clusters: a hub and the spokes `c1` and `c2`. The tests use the clusters that
//! `WHEELWRIGHT_CLUSTERS` names (set by `tests/run`, printed by `make cluster`), or start their own. The name of a
//! journey ends with `on_real_nodes`. Its commands are lines of bash, written as in the docs:
//!
//! ```ignore
//! /// A commit with an add-on reaches a pod on each spoke.
//! #[test]
//! fn a_commit_reaches_a_pod_on_real_nodes() {
//!     let user = User::of_a_fleet("greeter");              // wheelwright is installed; c1 and c2 have joined
//!     user.addon("1", "serve");                            // writes fleet/: the add-on `greeter`, a Deployment `greeter` on c1 and c2
//!     user.commit("version 1");                            // commits and pushes fleet/
//!     user.follow();                                       // creates the ConfigRepo `greeter`
//!     user.eventually("wheelwright rollout status greeter", "2 of 2 clusters done");
//!     user.run("kubectl --context c1 -n greeter wait --for=condition=Available deployment/greeter --timeout=60s");
//! }
//! ```
//!
//! Journeys of [`User::of_a_fleet`] run at the same time on the same hub, so everything they create carries their
//! name. Journeys that touch what others use, such as labels of clusters or the operator's pods, have the fleet to
//! themselves ([`User::alone`]) or start with new clusters ([`User::of_new_clusters`]). `tests/run` starts two
//! beds: one for the fleet and one for new clusters. `user.run` panics if the command fails, `user.fails` if it
//! succeeds. When a journey fails, its commands and the state of the clusters are printed.

mod addons;
mod charts;
mod how_to;
mod install;
mod lifecycle;
mod matrix;
mod ocm;
mod oncall;
mod page;
mod pages;
mod reasons;
mod recovery;
mod verbs;

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kube::{assets, helm};

/// The variable that lists the directories of running beds: one for the fleet and, if journeys with new clusters
/// run at the same time, another one.
const VARIABLE: &str = "WHEELWRIGHT_CLUSTERS";
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Maximum wait for a state, sized for a busy machine.
const WITHIN: Duration = Duration::from_secs(180);
/// Polling interval. Each check runs a program.
const POLL: Duration = Duration::from_millis(400);
/// Seconds after which a command is killed.
const LIMIT: &str = "400";

/// Returns the directory of each bed, starting a bed if none is running.
fn beds() -> &'static [PathBuf] {
    static BEDS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BEDS.get_or_init(|| {
        if let Some(directories) = std::env::var_os(VARIABLE) {
            return std::env::split_paths(&directories).collect();
        }
        let mut command = Command::new(format!("{ROOT}/tests/cluster/bed"));
        match std::env::var_os("WHEELWRIGHT_IMAGES") {
            Some(layouts) => command.arg("--images").arg(layouts),
            None => {
                command.arg("--binaries").arg(Path::new(env!("CARGO_BIN_EXE_wheelwright")).parent().unwrap())
            }
        };
        let mut bed = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut line, mut output) = (String::new(), BufReader::new(bed.stdout.take().unwrap()));
        output.read_line(&mut line).unwrap();
        let directory = line.trim().strip_prefix(&format!("{VARIABLE}=")).map(PathBuf::from);
        let directory = directory.unwrap_or_else(|| panic!("no clusters with real nodes: {line}"));
        // The clusters stop when one of the pipes is closed, at the latest when this process exits.
        std::mem::forget((bed, output));
        vec![directory]
    })
}

/// The clusters of a bed. The holder of an exclusive lock may change the state that they have between journeys.
struct Turn {
    directory: &'static Path,
    lock: File,
}

impl Turn {
    /// Waits until no journey uses the clusters of the fleet's bed.
    fn of_the_fleet() -> Self {
        Self::exclusive(&beds()[0])
    }

    /// Waits until no journey uses the bed whose clusters are reset for each journey. If there is only one bed, it
    /// serves both purposes.
    fn of_new_clusters() -> Self {
        Self::exclusive(&beds()[beds().len() - 1])
    }

    fn exclusive(directory: &'static Path) -> Self {
        let lock = File::options().create(true).append(true).open(directory.join("turn.lock")).unwrap();
        lock.lock().unwrap();
        Self { directory, lock }
    }

    /// Records if the clusters have the fleet that journeys share.
    fn mark(&self, has_fleet: bool) {
        let mark = self.directory.join("fleet");
        match has_fleet {
            true => fs::write(mark, "").unwrap(),
            false => drop(fs::remove_file(mark)),
        }
    }

    fn has_fleet(&self) -> bool {
        self.directory.join("fleet").exists()
    }

    /// Resets all clusters, unless they were just started.
    fn reset(&self) {
        self.mark(false);
        if fs::remove_file(self.directory.join("new")).is_err() {
            self.control("reset");
        }
    }

    /// Sends a request to the bed and waits until it is done.
    fn control(&self, request: &str) {
        let mut stream = UnixStream::connect(self.directory.join("control")).unwrap();
        writeln!(stream, "{request}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{request}");
    }

    /// Lets others use the fleet at the same time.
    fn share(&self) {
        self.lock.unlock().unwrap();
        self.lock.lock_shared().unwrap();
    }
}

/// A user with a shell and a home directory.
pub(crate) struct User {
    /// The name of everything that this journey creates.
    name: String,
    home: tempfile::TempDir,
    commands: RefCell<String>,
    turn: Turn,
}

impl User {
    /// A user of a hub with wheelwright and the clusters `c1` and `c2`, shared with other users.
    pub(crate) fn of_a_fleet(name: &str) -> Self {
        let user = Self::alone(name);
        loop {
            user.turn.share();
            // Another journey may have run in between.
            if user.turn.has_fleet() {
                return user;
            }
            user.turn.lock.unlock().unwrap();
            user.turn.lock.lock().unwrap();
            user.make_fleet();
        }
    }

    /// Returns the only user of a fleet. It must leave the fleet unchanged, because other journeys follow.
    pub(crate) fn alone(name: &str) -> Self {
        let user = Self::with(name, Turn::of_the_fleet());
        user.make_fleet();
        user
    }

    /// The only user of new clusters with nothing installed.
    pub(crate) fn of_new_clusters(name: &str) -> Self {
        let user = Self::with(name, Turn::of_new_clusters());
        user.turn.reset();
        user
    }

    fn with(name: &str, turn: Turn) -> Self {
        let home = tempfile::Builder::new().prefix("wheelwright-user-").tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir(at("bin")).unwrap();
        let programs = [
            ("wheelwright", PathBuf::from(env!("CARGO_BIN_EXE_wheelwright"))),
            ("kubectl", assets().join("kubectl")),
            ("helm", helm::program()),
        ];
        for (name, program) in programs {
            symlink(program, at("bin").join(name)).unwrap();
        }
        for directory in ["charts", "examples", "examples-repo", "tests"] {
            symlink(Path::new(ROOT).join(directory), at(directory)).unwrap();
        }
        fs::copy(turn.directory.join("kubeconfig"), at("kubeconfig")).unwrap();
        let authority = turn.directory.join("git/ca.crt");
        let config = format!(
            "[user]\nname = A User\nemail = user@example.com\n[http]\nsslCAInfo = {}\n[init]\ndefaultBranch = main\n[safe]\ndirectory = *\n",
            authority.display()
        );
        fs::write(at(".gitconfig"), config).unwrap();
        let user = Self { name: name.into(), home, commands: RefCell::new(String::new()), turn };
        user.run(&format!(
            "rm -rf $REPOSITORIES/{name}.git; git init --quiet --bare $REPOSITORIES/{name}.git"
        ));
        user.run(&format!("git clone --quiet https://writer:secret@$GIT/{name}.git fleet 2>&1"));
        user
    }

    /// Installs wheelwright and joins both spokes, unless that is done already. Both are then available.
    fn make_fleet(&self) {
        if self.turn.has_fleet() {
            return;
        }
        self.turn.reset();
        self.run("wheelwright install --image wheelwright:0.1.0 --git-hosts $GIT");
        self.join();
        self.eventually("wheelwright status", "2 of 2 available");
        self.allow_repositories();
        self.turn.mark(true);
    }

    /// Lets the ConfigRepos of the operator's namespace act as the operator.
    pub(crate) fn allow_repositories(&self) {
        self.run("kubectl label namespace wheelwright-system gitops.wheelwright.dev/operator-identity=allowed --overwrite");
    }

    /// Makes both spokes join the hub, using `wheelwright get token`.
    pub(crate) fn join(&self) {
        self.join_as(&["c1", "c2"]);
    }

    /// Makes these spokes join the hub.
    fn join_as(&self, clusters: &[&str]) {
        for cluster in clusters {
            self.run(&format!(
                "join=$(wheelwright get token | sed -n 's/<cluster_name>/{cluster}/p'); $join --context {cluster}"
            ));
        }
        self.run(&format!("wheelwright accept --clusters {} --wait 120", clusters.join(",")));
    }

    /// Applies an object to the hub.
    fn apply(&self, object: &str) {
        self.run(&format!("kubectl apply -f - <<'END'\n{object}\nEND"));
    }

    /// Returns the version of this journey's workload in a namespace of a spoke.
    fn version_on(&self, cluster: &str, namespace: &str) -> String {
        let name = &self.name;
        let label = "jsonpath={.spec.template.metadata.labels.version}";
        self.run(&format!("kubectl --context {cluster} -n {namespace} get deployment {name} -o '{label}'"))
    }

    /// Sends the bed a request, such as `crash c1`, and waits until it is done.
    pub(crate) fn control(&self, request: &str) {
        self.turn.control(request);
    }

    /// Loads an image with programs at their paths onto the nodes.
    fn load(&self, image: &str, programs: &[(&str, &Path)]) {
        let programs = programs.iter().map(|(path, file)| format!("{path}={}", file.display()));
        self.control(&format!("load {image} {}", programs.collect::<Vec<_>>().join(" ")));
    }

    /// Returns the path of a file in the home directory, where commands run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file in the home directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs a line of bash; returns true if it succeeds, and its output.
    fn bash(&self, line: &str) -> (bool, String) {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let git = fs::read_to_string(self.turn.directory.join("git/address")).unwrap();
        let mut command = Command::new("timeout");
        command.args([LIMIT, "bash", "-euo", "pipefail", "-c", &format!("exec 2>&1; {line}")]);
        command.env_clear().env("PATH", path).env("HOME", self.home.path());
        command.env("KUBECONFIG", self.path("kubeconfig"));
        command.env("GIT", git.trim()).env("REPOSITORIES", self.turn.directory.join("git"));
        let output = command.current_dir(self.home.path()).stdin(Stdio::null()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn record(&self, line: &str, output: &str) {
        let _ = writeln!(self.commands.borrow_mut(), "$ {line}\n{output}");
    }

    /// Runs a line of bash and returns its output and errors; panics if it fails.
    pub(crate) fn run(&self, line: &str) -> String {
        let (is_success, output) = self.bash(line);
        self.record(line, &output);
        assert!(is_success, "this fails: {line}\n{output}");
        output
    }

    /// Runs a line of bash that must fail, and returns its output and errors.
    pub(crate) fn fails(&self, line: &str) -> String {
        let (is_success, output) = self.bash(line);
        self.record(line, &output);
        assert!(!is_success, "this should fail: {line}\n{output}");
        output
    }

    /// Runs a line of bash until its output contains `words`, whether it succeeds or not, and returns the output.
    pub(crate) fn eventually(&self, line: &str, words: &str) -> String {
        let deadline = Instant::now() + WITHIN;
        loop {
            let (_, output) = self.bash(line);
            if output.contains(words) {
                self.record(line, &output);
                return output;
            }
            assert!(Instant::now() < deadline, "waited {WITHIN:?} in vain for {words:?} of {line}\n{output}");
            std::thread::sleep(POLL);
        }
    }

    /// Runs a line of bash that prints JSON until nothing is missing in it, and returns its last output.
    pub(crate) fn eventually_has(&self, line: &str, missing: impl Fn(&Value) -> Vec<String>) -> Value {
        let deadline = Instant::now() + WITHIN;
        loop {
            let (_, output) = self.bash(line);
            let value = serde_json::from_str(&output).unwrap_or_default();
            let missing = missing(&value);
            if missing.is_empty() {
                self.record(line, "(as expected)");
                return value;
            }
            let missing = missing.join("\n");
            assert!(Instant::now() < deadline, "waited {WITHIN:?} in vain with {line} for\n{missing}");
            std::thread::sleep(POLL);
        }
    }

    /// Writes `fleet/`: an add-on named after this journey, rolled out to all clusters one at a time. On each
    /// cluster it is a Deployment of one replica with a readiness probe, in a namespace of the same name, that
    /// runs `tests/cluster/workload.c` with the given arguments.
    pub(crate) fn addon(&self, version: &str, arguments: &str) {
        let workload = self.workload(&self.name, version, arguments);
        let text = ADDON.replace("WORKLOAD", &workload).replace("NAME", &self.name);
        self.write("fleet/addon.yaml", &text.replace("VERSION", version));
        self.write("fleet/placement.yaml", &PLACEMENT.replace("NAME", &self.name));
        self.write("fleet/kustomization.yaml", "resources: [placement.yaml, addon.yaml]\n");
    }

    /// Returns the manifests of a version for a namespace on the spokes.
    fn workload(&self, namespace: &str, version: &str, arguments: &str) -> String {
        let arguments: Vec<_> = arguments.split(' ').map(|word| format!("{word:?}")).collect();
        let workload = WORKLOAD.replace("NAMESPACE", namespace).replace("NAME", &self.name);
        workload.replace("VERSION", version).replace("ARGUMENTS", &format!("[{}]", arguments.join(", ")))
    }

    /// Commits and pushes all of `fleet/`.
    pub(crate) fn commit(&self, message: &str) {
        self.run(&format!("cd fleet; git add --all; git commit --quiet --message '{message}'; git push --quiet origin HEAD:main"));
    }

    /// Creates this journey's ConfigRepo, which acts as the operator.
    pub(crate) fn follow(&self) {
        let name = &self.name;
        self.write("config-repo.yaml", &CONFIG_REPO.replace("NAME", name));
        self.run("kubectl -n wheelwright-system create secret generic NAME --from-file ca.crt=$REPOSITORIES/ca.crt"
            .replace("NAME", name).as_str());
        self.run(r#"sed "s/GIT/$GIT/" config-repo.yaml | kubectl apply -f -"#);
    }
}

/// A Placement that selects all clusters, in a separate namespace.
const PLACEMENT: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {name: global, namespace: NAME}
spec: {clusterSet: global}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: all, namespace: NAME}
spec:
  clusterSets: [global]
  tolerations:
  - {key: cluster.open-cluster-management.io/unreachable, operator: Exists}
  - {key: cluster.open-cluster-management.io/unavailable, operator: Exists}
"#;

/// The manifests of an add-on or a set: a Deployment in a namespace.
const WORKLOAD: &str = r#"      - apiVersion: v1
        kind: Namespace
        metadata: {name: NAMESPACE}
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: NAME, namespace: NAMESPACE}
        spec:
          replicas: 1
          progressDeadlineSeconds: 30
          selector: {matchLabels: {app: NAME}}
          template:
            metadata: {labels: {app: NAME, version: "VERSION"}}
            spec:
              containers:
              - name: workload
                image: workload:1
                args: ARGUMENTS
                readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
"#;

const ADDON: &str = r#"apiVersion: addon.open-cluster-management.io/v1alpha1
kind: AddOnTemplate
metadata: {name: NAME-VERSION}
spec:
  addonName: NAME
  agentSpec:
    workload:
      manifests:
WORKLOAD---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata:
  name: NAME
  annotations: {addon.open-cluster-management.io/lifecycle: addon-manager}
spec:
  supportedConfigs:
  - group: addon.open-cluster-management.io
    resource: addontemplates
    defaultConfig: {name: NAME-VERSION}
  installStrategy:
    type: Placements
    placements:
    - name: all
      namespace: NAME
      rolloutStrategy:
        type: Progressive
        progressive: {maxConcurrency: 1, maxFailures: 0, minSuccessTime: "1s", progressDeadline: 2m}
"#;

const CONFIG_REPO: &str = r"apiVersion: gitops.wheelwright.dev/v1alpha1
kind: ConfigRepo
metadata: {name: NAME, namespace: wheelwright-system}
spec:
  url: https://GIT/NAME.git
  path: .
  ref: {branch: main}
  interval: 5s
  secretRef: {name: NAME}
";

/// The commands that print the state of the clusters after a failure.
const STATE: &str = r"
for context in hub c1 c2; do
    echo; echo == $context; kubectl --context $context get pods -A -o wide
    kubectl --context $context get events -A --field-selector type=Warning --sort-by=.lastTimestamp | tail -n 15
done
echo; echo == the operator; kubectl -n wheelwright-system logs -l app.kubernetes.io/name=wheelwright --prefix --tail 25
for context in c1 c2; do
    echo; echo == the agent on $context; kubectl --context $context -n open-cluster-management-agent logs deployment/wheelwright-agent --tail 15
done
echo; wheelwright status; wheelwright doctor";

impl Drop for User {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("== the commands of {}\n{}", self.name, self.commands.borrow());
            eprintln!("== the state of the clusters\n{}", self.bash(&format!("set +e; {STATE}")).1);
            // Leftovers of a failed journey would interfere with others.
            self.turn.mark(false);
        }
    }
}
