use super::*;

const FIRST: &str = "https://charts.example.com/web:1.2.3";

fn kustomization(versions: impl IntoIterator<Item = String>) -> String {
    let entry = |version| {
        format!("- {{name: web, repo: 'https://charts.example.com', version: {version}, releaseName: a}}\n")
    };
    format!("helmCharts:\n{}", versions.into_iter().map(entry).collect::<String>())
}

/// Commits a kustomization, and fetches these charts for it.
fn commit(hub: &mut Hub, kustomization: &str, charts: &[(&str, &[u8])]) -> String {
    let mut tree: FileTree = [("kustomization.yaml", kustomization.as_bytes())].into_iter().collect();
    charts.iter().for_each(|(chart, archive)| tree.insert_chart(*chart, *archive));
    hub.commits += 1;
    hub.world.commit(&key(), &format!("{:040x}", hub.commits), tree);
    hub.run()
}

fn charts(hub: &Hub) -> Vec<(String, String)> {
    hub.status().charts.into_iter().map(|one| (one.chart, one.digest)).collect()
}

#[test]
fn a_commit_waits_for_its_remote_charts_and_pins_them() {
    let mut hub = Hub::new(json!({}));
    let first = kustomization(["1.2.3".to_owned()]);
    let waits = format!("Reconciling Waiting: charts are being fetched: {FIRST}");
    assert_eq!(commit(&mut hub, &first, &[]), waits);
    assert_eq!(charts(&hub), [(FIRST.to_owned(), String::new())]);

    let damaged = commit(&mut hub, &first, &[(FIRST, b"abc")]);
    assert!(damaged.contains("the file is not a gzip archive"), "{damaged}");
    let pinned = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
    assert_eq!(charts(&hub), [(FIRST.to_owned(), pinned.clone())]);
    commit(&mut hub, &first, &[(FIRST, b"other content")]);
    assert_eq!(charts(&hub), [(FIRST.to_owned(), pinned.clone())], "the first content stays");

    let second = "https://charts.example.com/web:1.2.4".to_owned();
    commit(&mut hub, &kustomization(["1.2.4", "1.2.3"].map(str::to_owned)), &[(FIRST, b"abc")]);
    assert_eq!(charts(&hub), [(FIRST.to_owned(), pinned), (second.clone(), String::new())]);
    commit(&mut hub, &kustomization(["1.2.4".to_owned()]), &[(FIRST, b"abc")]);
    assert_eq!(charts(&hub), [(second, String::new())], "charts that are not used are forgotten");
    let map = "namespace: config\nconfigMapGenerator: [{name: a, literals: [k=v]}]\n";
    assert_eq!(commit(&mut hub, map, &[]), "Ready: 1 object of 000000000000");
    assert_eq!(charts(&hub), []);
}

#[test]
fn a_commit_with_too_many_remote_charts_is_refused() {
    let mut hub = Hub::new(json!({}));
    let message = commit(&mut hub, &kustomization((0..65).map(|patch| format!("1.2.{patch}"))), &[]);
    assert!(message.contains("refers to 65 remote charts, and at most 64 are allowed"), "{message}");
    assert_eq!(charts(&hub), []);
}

#[test]
fn a_failed_fetch_of_charts_is_reported_although_the_commit_was_judged_before() {
    let mut hub = Hub::new(json!({}));
    let first = kustomization(["1.2.3".to_owned()]);
    let damaged = commit(&mut hub, &first, &[(FIRST, b"abc")]);
    assert!(damaged.starts_with("Stalled RenderFailed"), "{damaged}");
    // The same commit after a restart, without its charts.
    hub.commits -= 1;
    assert_eq!(commit(&mut hub, &first, &[]), damaged);
    let failure = SourceFailure { reason: "ChartUnavailable", message: "the content was swapped".into() };
    hub.world.fail_fetching(&key(), failure);
    let reported = hub.run();
    assert!(reported.starts_with("Stalled ChartUnavailable: the content was swapped"), "{reported}");
}
