//! The dashboard in a real browser: what people see and click while the fleet changes.
//!
//! If chromium or npm is missing, `tests/run` reports it and skips the tests named `in_a_browser`.

mod chromium;
mod demo;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::kube::Api;
use api::crds;
use api::gitops::v1alpha1::RolloutPolicy;
use controllers::hub::overview::{ClusterSummary, Clusters, GroupSummary, Overview, WorkloadSummary};
use controllers::hub::placement::LabelChange;
use engine::placement::explain::Explanation;
use engine::rollout::ClusterState;
use object::{Key, Object};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wheelwright::dashboard::{ClusterObjects, LocalDashboard, ReadFleet};

use crate::cli::server;
use crate::dashboard::{Dashboard, VISITORS};
use crate::golden;
use crate::kube::{Directory, Kubectl, built, helm};
use crate::rollout::load;
use chromium::Chromium;

/// Maximum size of the first paint: style, script and page.
const FIRST_PAINT: u64 = 100_000;

/// Fails if axe-core finds problems in the page, in light and dark mode, on a desktop and on a phone.
fn check_accessibility(page: &mut Chromium) {
    let axe = std::fs::read_to_string(built("tests/browser/build")).unwrap();
    // The style is loaded once the document is complete.
    page.wait("document.readyState === 'complete'");
    page.evaluate(&(axe + "; true"));
    for (scheme, width) in [("light", 1200), ("dark", 1200), ("dark", 375), ("light", 375)] {
        show_on(page, scheme, width);
        let found = page.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(\
             one => one.id + ': ' + one.nodes.map(node => node.html + ' ' + node.failureSummary).join('\\n')))",
        );
        assert_eq!(found, json!([]), "{scheme}, {width} pixels");
        // A phone zooms out until everything fits, which increases `innerWidth`.
        let overflow =
            page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{width} pixels: {overflow} too wide");
        let wide = page.evaluate(
            "[...document.querySelectorAll('.panel')].filter(panel => panel.scrollWidth > panel.clientWidth)\
             .map(panel => panel.getAttribute('aria-labelledby'))",
        );
        assert_eq!(wide, json!([]), "panels narrower than their content at {width} pixels");
    }
    show_as_before(page);
}

/// Shows the page in a color scheme on a screen of the given width.
fn show_on(page: &mut Chromium, scheme: &str, width: u32) {
    let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
    page.call("Emulation.setEmulatedMedia", json!({"features": features}));
    let size = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500});
    page.call("Emulation.setDeviceMetricsOverride", size);
}

fn show_as_before(page: &mut Chromium) {
    page.call("Emulation.setEmulatedMedia", json!({"features": []}));
    page.call("Emulation.clearDeviceMetricsOverride", json!({}));
}

/// Writes a screenshot for the README when golden files are written.
fn picture(page: &mut Chromium, name: &str) {
    let picture = page.screenshot();
    assert!(picture.starts_with(b"\x89PNG"), "no picture");
    if golden::is_blessing() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name), picture).unwrap();
    }
}

/// Opens the confirmation of a button.
fn open(page: &mut Chromium, button: &str) {
    let button = json!(button);
    page.evaluate(&format!("document.getElementById({button}).closest('details').open = true"));
}

/// A person presses a mouse button and selects text while the page changes.
fn updates_take_away_no_click_and_no_selection(page: &mut Chromium, kubectl: &Kubectl, cluster: &Value) {
    open(page, "pause:managed-serviceaccount");
    let at = page.evaluate(
        "(() => { const button = document.getElementById('pause:managed-serviceaccount'); \
         button.scrollIntoView({block: 'center'}); const box = button.getBoundingClientRect(); \
         return {x: box.x + box.width / 2, y: box.y + box.height / 2, button: 'left', clickCount: 1} })()",
    );
    let mouse = |page: &mut Chromium, kind: &str| {
        let mut event = at.clone();
        event["type"] = json!(kind);
        page.call("Input.dispatchMouseEvent", event);
    };
    mouse(page, "mousePressed");
    kubectl.run_with(&["apply", "-f", "-"], &cluster.to_string());
    page.wait("waiting?.includes('3 of 4 available')");
    page.wait("document.body.innerText.includes('3 of 3 available')");
    mouse(page, "mouseReleased");
    page.wait_for_button("Resume managed-serviceaccount");
    page.wait_for_text("3 of 4 available");
    page.press("document.getElementById('resume:managed-serviceaccount').click()");
    page.wait_for_button("Pause managed-serviceaccount");

    let selected = page.evaluate(
        "getSelection().selectAllChildren(document.getElementById('repositories')); getSelection().toString()",
    );
    kubectl.run(&["delete", "managedcluster", "new-1", "--wait=false"]);
    page.wait_for_text("paused while text is selected");
    assert_eq!(page.evaluate("getSelection().toString()"), selected);
    page.evaluate("getSelection().removeAllRanges(); true");
    page.wait_for_text("3 of 3 available");
    page.wait("document.getElementById('state').textContent === 'live'");
}

/// A person finds a cluster by its name and by clicking its cell.
fn clusters_are_found(page: &mut Chromium) {
    let back = |page: &mut Chromium| {
        page.press("(document.getElementById('back') ?? document.querySelector('.brand')).click()");
        page.wait("document.getElementById('state')?.textContent === 'live'");
    };
    let find = |name: &str| {
        let name = json!(name);
        format!(
            "document.getElementById('of').value = {name}; document.querySelector('[role=search] button').click()"
        )
    };
    page.press(&find("aws-3"));
    page.wait_for_text("ManagedClusterAvailable");
    assert_eq!(page.evaluate("document.querySelector('h1').textContent"), "aws-3");
    check_accessibility(page);
    back(page);
    page.press("document.querySelector('.cells .x').click()");
    page.wait("document.querySelector('h1')?.textContent === 'aws-1'");
    page.wait_for_text("TimedOut");
    back(page);
    page.press(&find("aws-9"));
    page.wait_for_text("There is no cluster aws-9");
    check_accessibility(page);
    back(page);
}

/// A rollout's page shows its stages and clusters, and its table can filter clusters by state.
fn rollouts_are_followed_on_their_page(page: &mut Chromium) {
    page.press("document.getElementById('rollout:managed-serviceaccount').click()");
    page.wait("document.getElementById('state')?.textContent === 'live'");
    page.wait_for_text("1 failed, 0 allowed");
    page.wait_for_text("aws-1");
    check_accessibility(page);
    page.press("document.getElementById('table').click()");
    page.wait_for_text("Name contains");
    page.press("document.querySelector('.legend .x').click()");
    page.wait("document.querySelectorAll('tbody tr').length === 1");
    check_accessibility(page);
    // The address of a filter can be shared.
    page.press("document.getElementById('clear').click()");
    page.wait("document.querySelectorAll('tbody tr').length > 2");
    page.press(
        "document.getElementById('filter:label').value = 'region=eu'; document.querySelector('.filters button').click()",
    );
    page.wait(
        "document.querySelectorAll('tbody tr').length === 2 && location.search.includes('label=region%3Deu')",
    );
    check_accessibility(page);
    page.press("document.getElementById('back').click()");
    page.wait("document.getElementById('state')?.textContent === 'live'");
}

/// A person rolls back on a rollout's page, which first shows the affected clusters and their versions.
fn a_rollout_is_taken_back(page: &mut Chromium) {
    page.press("document.getElementById('rollout:managed-serviceaccount').click()");
    page.wait("document.querySelector('h1').textContent === 'managed-serviceaccount'");
    page.wait("document.getElementById('state')?.textContent === 'live'");
    page.press("document.querySelector('[id^=\"open:undo:\"]').click()");
    page.wait_for_text("1 cluster will return to managed-serviceaccount-0.4.1");
    page.wait_for_text("2 clusters never received it");
    check_accessibility(page);
    show_on(page, "light", 1200);
    picture(page, "dashboard-rollout.png");
    show_as_before(page);
    page.press("document.querySelector('[id^=\"undo:\"]').click()");
    page.wait_for_text("is quarantined");
    page.wait("document.querySelector('[id^=\"open:undo:\"]') === null");
    check_accessibility(page);
}

/// A person tries a label on the page of a placement, and shares the address of the result.
fn a_label_is_tried(page: &mut Chromium) {
    page.press(
        "document.getElementById('filter:cluster').value = 'aws-2'; document.getElementById('filter:label').value = 'stage=canary'; \
         document.querySelector('.filters button').click()",
    );
    page.wait_for_text("If aws-2 had the label stage=canary");
    page.wait("location.search.includes('label=stage%3Dcanary')");
    check_accessibility(page);
    page.press("document.getElementById('actual').click()");
    page.wait("document.getElementById('outcome') === null");
}

/// Returns the status of a ConfigRepo with a plan and deletions that wait for an approval.
fn held_plan() -> Value {
    let object =
        |kind: &str, name: &str| json!({"version": "", "kind": kind, "namespace": "fleet", "name": name});
    let field =
        |path: &str, before: &str, after: &str| json!({"path": path, "before": before, "after": after});
    let settings: Vec<_> = (1..=10).map(|n| object("ConfigMap", &format!("settings-{n:02}"))).collect();
    let shared = json!({"total": 40, "objects": settings, "moreFields": 0, "fields": [
        field("data.webhookTimeout", "\"5s\"", "\"10s\""), field("data.failurePolicy", "", "\"Ignore\"")]});
    let placement = json!({"total": 1, "objects": [object("Placement", "edge")], "moreFields": 0,
        "fields": [field("spec.numberOfClusters", "3", "12"), field("spec.tolerations[0].key", "\"down\"", "")]});
    let new = json!({"total": 1, "objects": [object("ConfigMap", "new")], "moreFields": 3,
        "fields": [field("data.mode", "", "\"enforce\"")]});
    let changes = json!({
        "changed": {"total": 41, "objects": settings, "changes": [shared, placement]},
        "created": {"total": 2, "objects": [object("ConfigMap", "new")], "changes": [new]}});
    let deletions = json!({"approval": "0123", "total": 1});
    json!({"heldPlan": "c0de", "heldChanges": changes, "heldDeletions": deletions})
}

/// A person reviews a plan on the page of its repository, and follows a condition to its documentation.
fn a_plan_is_reviewed(page: &mut Chromium) {
    page.wait_for_text("Plan waits");
    page.press("[...document.querySelectorAll('.need a')].find(one => one.textContent === 'Review').click()");
    page.wait_for_button("Approve the plan of fleet/fleet");
    page.wait_for_text("2 objects to create or take over");
    page.wait_for_text("ConfigMap fleet/new");
    page.wait_for_text("The same change in 40 objects");
    page.wait("document.querySelector('.diff del').textContent === '− \"5s\"'");
    page.wait_for_button("Approve the deletions of fleet/fleet");
    page.wait(
        "document.querySelector('a[href^=\"https://git.example.com/fleet/commit/3e60d680\"]') !== null",
    );
    check_accessibility(page);
    show_on(page, "light", 1200);
    picture(page, "dashboard-repository.png");
    show_as_before(page);
    page.press("document.getElementById('reason:Ready').click()");
    page.wait_for_text("The commit is applied.");
    check_accessibility(page);
    for list in ["rollouts", "repositories"] {
        page.press(&format!("document.querySelector('nav a[href={list}]').click()"));
        page.wait(&format!(
            "document.querySelector('nav [aria-current]')?.getAttribute('href') === '{list}'"
        ));
        check_accessibility(page);
    }
    page.press("document.getElementById('back').click()");
    page.wait("document.getElementById('state')?.textContent === 'live'");
}

/// Changes and rejections do not reload the page.
fn a_change_keeps_the_place(page: &mut Chromium) {
    let title = page.evaluate("document.title");
    assert!(title.as_str().unwrap().starts_with("Fleet – Wheelwright – localhost:"), "{title}");
    page.evaluate("globalThis.isSamePage = true");
    page.evaluate(
        "(() => { const button = document.getElementById('pause:managed-serviceaccount'); \
         button.form.elements.subject.value = 'No Name'; button.click(); return true })()",
    );
    page.wait_for_text("there is nothing with the name \"No Name\"");
    check_accessibility(page);
    page.evaluate("document.getElementById('pause:managed-serviceaccount').form.elements.subject.value = 'managed-serviceaccount'");
    page.press("document.getElementById('pause:managed-serviceaccount').click()");
    page.wait_for_button("Resume managed-serviceaccount");
    page.wait("!document.body.innerText.includes('there is nothing')");
    page.press("document.getElementById('resume:managed-serviceaccount').click()");
    page.wait_for_button("Pause managed-serviceaccount");
    assert_eq!(page.evaluate("isSamePage"), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_followed_stopped_and_approved_in_a_browser() {
    let dir = Directory::new("browser");
    let hub = server(crds::hub().iter().map(Object::from_typed).collect()).await;
    let admin = hub.kubeconfig("admin", &["system:masters"]).unwrap();
    let kubeconfig = dir.path("admin.kubeconfig");
    std::fs::write(&kubeconfig, serde_json::to_string(&admin).unwrap()).unwrap();
    let client = crate::trace::client(&admin).await;
    let kubectl = Kubectl::new(&kubeconfig, dir.path("kubectl-home"));
    kubectl.run(&["create", "namespace", helm::NAMESPACE]);
    load(&client, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/explain/rollout.yaml")).await;
    kubectl.run_with(&["apply", "-f", "-"], VISITORS);
    let ready = json!({"type": "Ready", "status": "True", "reason": "Applied", "message": "applied 3e60d680 (17 objects)",
        "lastTransitionTime": "2026-11-21T15:31:25Z"});
    let commit = json!({"commit": "3e60d68007a1c5b2f4e8d9036b7a1c5b2f4e8d90"});
    let status = json!({"status": {"conditions": [ready], "seen": commit, "applied": commit}}).to_string();
    let of_repository = ["configrepo", "fleet", "-n", "fleet", "--subresource=status", "--type=merge"];
    kubectl.run(&[&["patch"], &of_repository[..], &["-p", &status]].concat());
    kubectl.run(&["delete", "configrepo", "app", "-n", "team"]);
    for (cluster, region) in [("aws-1", "eu"), ("aws-2", "eu"), ("aws-3", "us")] {
        let set = "cluster.open-cluster-management.io/clusterset=aws".to_owned();
        kubectl.run(&["label", "managedcluster", cluster, &set, &format!("region={region}")]);
    }
    let token = kubectl.run(&["create", "token", "admin", "-n", "team"]);
    let dashboard = Dashboard::start(&client, &kubeconfig).await;
    let url = format!("https://localhost:{}/", dashboard.port);

    let followed = tokio::task::spawn_blocking(move || {
        let mut page = Chromium::open(&url);
        page.wait_for_text("Token of the hub");
        check_accessibility(&mut page);
        let log_in = |token: &str| {
            format!(
                "document.getElementById('token').value = {}; document.querySelector('main button').click()",
                json!(token.trim())
            )
        };
        page.press(&log_in("nonsense"));
        page.wait_for_text("The hub does not accept this token");
        page.press(&log_in(&token));
        page.wait("document.getElementById('state')?.textContent === 'live'");
        page.wait_for_text("managed-serviceaccount failed on 1 of 3 clusters");
        page.wait_for_text("aws-1 TimedOut");
        page.wait_for_text("3 of 3 available");
        check_accessibility(&mut page);
        page.wait("document.querySelector('.arrows .x').title.includes('1 failed (0 allowed)')");
        picture(&mut page, "dashboard.png");
        for (scheme, width, name) in
            [("dark", 1200, "dashboard-dark.png"), ("light", 375, "dashboard-phone.png")]
        {
            show_on(&mut page, scheme, width);
            picture(&mut page, name);
        }
        show_as_before(&mut page);

        // Open the reasons of a placement and go back.
        page.press("document.querySelector('[aria-labelledby=placements] table a').click()");
        page.wait_for_text("Fleet / Placements");
        page.wait_for_text("Reason");
        check_accessibility(&mut page);
        let explain = "document.querySelector('main .filter button').click()";
        page.press(&format!("document.getElementById('q').value = 'aws-2'; {explain}"));
        page.wait("document.querySelectorAll('tbody th').length === 1");
        check_accessibility(&mut page);
        page.press(&format!("document.getElementById('q').value = 'none'; {explain}"));
        page.wait_for_text("There is no cluster whose name contains none");
        check_accessibility(&mut page);
        a_label_is_tried(&mut page);
        page.press("document.getElementById('back').click()");
        page.wait("document.getElementById('state')?.textContent === 'live'");

        clusters_are_found(&mut page);

        // A cluster joins.
        let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "new-1"}, "spec": {"hubAcceptsClient": false}});
        kubectl.run_with(&["apply", "-f", "-"], &cluster.to_string());
        page.wait_for_text("3 of 4 available");
        page.wait_for_text("waiting to be accepted");
        rollouts_are_followed_on_their_page(&mut page);

        // A person pauses the rollout with the keyboard. The focused button keeps the focus while the page
        // changes, and an open confirmation stays open.
        open(&mut page, "pause:managed-serviceaccount");
        page.wait_for_text("No further cluster starts until you resume");
        check_accessibility(&mut page);
        page.evaluate("document.getElementById('pause:managed-serviceaccount').focus(); true");
        kubectl.run(&["label", "managedcluster", "new-1", "a=b"]);
        kubectl.run(&["delete", "managedcluster", "new-1", "--wait=false"]);
        page.wait_for_text("3 of 3 available");
        page.wait("document.activeElement.id === 'pause:managed-serviceaccount'");
        let enter = |kind: &str| json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
        page.call("Input.dispatchKeyEvent", enter("keyDown"));
        page.call("Input.dispatchKeyEvent", enter("keyUp"));
        page.wait_for_button("Resume managed-serviceaccount");
        page.wait("document.querySelector('.cells .p').title.includes('Waiting (Paused)')");
        check_accessibility(&mut page);
        page.press("document.getElementById('resume:managed-serviceaccount').click()");
        page.wait_for_button("Pause managed-serviceaccount");
        updates_take_away_no_click_and_no_selection(&mut page, &kubectl, &cluster);
        a_change_keeps_the_place(&mut page);

        // The failed canary is now tolerated, and the next group requests an approval.
        let approval = json!({"spec": {"approval": {"mode": "BetweenGroups"}}}).to_string();
        kubectl.run(&["patch", "rolloutpolicy", "managed-serviceaccount", "--type=merge", "-p", &approval]);
        let groups = json!({"maxFailures": "100%", "progressDeadline": "6s"});
        let strategy = json!({"type": "ProgressivePerGroup", "progressivePerGroup": groups});
        let path = "/spec/installStrategy/placements/0/rolloutStrategy";
        let tolerant = json!([{"op": "replace", "path": path, "value": strategy}]).to_string();
        kubectl.run(&[
            "patch",
            "clustermanagementaddon",
            "managed-serviceaccount",
            "--type=json",
            "-p",
            &tolerant,
        ]);
        page.wait_for_button("Approve the start of");
        let held = json!({"status": held_plan()}).to_string();
        kubectl.run(&[&["patch"], &of_repository[..], &["-p", &held]].concat());
        a_plan_is_reviewed(&mut page);
        page.press("[...document.querySelectorAll('button')].find(one => one.textContent.startsWith('Approve the start')).click()");
        page.wait("!document.body.textContent.includes('Approve the start of')");
        page.wait("document.getElementById('state').textContent === 'live'");
        assert!(page.received < 10 * FIRST_PAINT, "{} bytes", page.received);
        a_rollout_is_taken_back(&mut page);
        page.press("document.querySelector('.who button').click()");
        page.wait_for_text("Token of the hub");
    });
    followed.await.unwrap();
    let policy = Api::<RolloutPolicy>::all(client).get("managed-serviceaccount").await.unwrap();
    assert_eq!(policy.spec.approved.len(), 1, "{:?}", policy.spec.approved);
    let rollouts = policy.status.unwrap_or_default().rollouts;
    assert!(rollouts.iter().any(|one| !one.quarantined.is_empty()), "{rollouts:?}");
}

/// Returns a fleet of `total` clusters in the middle of a rollout, of which the first `done` are done.
fn fleet(total: usize, done: usize) -> Overview {
    let cluster = |number: usize| ClusterSummary {
        name: format!("cluster-{number:04}"),
        runs: "proxy-1.2@0123".into(),
        state: if number < done { ClusterState::Done } else { ClusterState::Starting },
        available: number < done,
        reports_error: false,
        message: if number < done { String::new() } else { format!("step {done} of the deployment") },
        since: None,
    };
    let clusters = (0..total).map(cluster).collect();
    let group = GroupSummary { placement: "fleet/all".into(), name: "#0".into(), clusters };
    let add_on = WorkloadSummary {
        name: "proxy".into(),
        settled: done,
        total,
        groups: vec![group],
        ..WorkloadSummary::default()
    };
    let clusters = Clusters { total, available: total, ..Clusters::default() };
    Overview { clusters, add_ons: vec![add_on], ..Overview::default() }
}

/// The number of clusters in a fleet, and how many of them are done.
struct Progress(usize, Arc<Mutex<usize>>);

impl ReadFleet for Progress {
    fn overview(&self) -> Result<Overview, String> {
        Ok(fleet(self.0, *self.1.lock().unwrap()))
    }

    fn placement(&self, _: &Key, _: Option<&LabelChange>) -> Result<Option<Explanation>, String> {
        Ok(None)
    }

    fn cluster(&self, _: &str) -> Result<ClusterObjects, String> {
        Ok(ClusterObjects::default())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn six_hundred_and_ten_thousand_clusters_do_not_freeze_the_page_in_a_browser() {
    for total in [600, 10_000] {
        follow(total).await;
    }
}

/// Follows a rollout to `total` clusters.
async fn follow(total: usize) {
    let dashboard = LocalDashboard::listen(0).await.unwrap();
    let (url, stop) = (dashboard.url.clone(), CancellationToken::new());
    let done = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&done);
    let serving = tokio::spawn(dashboard.serve(Arc::new(Progress(total, seen)), stop.clone()));
    let followed = tokio::task::spawn_blocking(move || {
        let mut page = Chromium::open(&url);
        page.wait_for_text(&format!("0 of {total} clusters done"));
        page.wait("document.getElementById('state').textContent === 'live'");
        // The page, its style and script, and the first event of the stream, which contains the page again.
        assert!(page.received < 2 * FIRST_PAINT, "{} bytes", page.received);
        assert!(page.requests >= 4, "{} requests for the page, its style, script and stream", page.requests);
        let painted =
            page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize").as_u64().unwrap();
        let others = "performance.getEntriesByType('resource').filter(one => !one.name.endsWith('/events'))";
        let others = page.evaluate(&format!("{others}.reduce((sum, one) => sum + one.encodedBodySize, 0)"));
        assert!(
            (1..FIRST_PAINT).contains(&(painted + others.as_u64().unwrap())),
            "{painted} and {others} bytes"
        );
        let before = page.cpu_time();
        for step in 1..=10 {
            *done.lock().unwrap() = step * total / 10;
            page.wait_for_text(&format!("{} of {total} clusters done", step * total / 10));
        }
        let each = (page.cpu_time() - before) / 10;
        assert!(each < Duration::from_millis(500), "an update takes {each:?} of the page's thread");
        let elements: Value = page.evaluate("document.querySelectorAll('*').length");
        assert!(elements.as_u64().unwrap() < 2000, "{elements} elements");
        check_accessibility(&mut page);
    });
    followed.await.unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
}
