//! What an add-on reports before its rollout, and the snapshots of its configurations.

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::json;

use crate::fixtures::{
    ADDON, addon, images, is_completed, progress, progressive, seconds, select_all, template, world,
};
use api::addon::v1alpha1::ClusterManagementAddOn;
use object::Key;
use sim::World;

#[test]
fn an_addon_says_what_it_waits_for_and_goes_out_when_its_placement_comes() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    world.run_for(seconds(30)).unwrap();
    let (reason, message) = progress(&world);
    assert!(reason == "Progressing" && message.ends_with("The placement does not exist."), "{message}");
    select_all(&mut world);
    world.run_for(seconds(1)).unwrap();
    assert_eq!(images(&world), ["0.4.0", "0.4.0", "0.4.0"], "one second after the placement");
}

#[test]
fn a_template_that_cannot_be_rendered_is_reported_and_changes_no_cluster() {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", json!({"type": "All"}));
    select_all(&mut world);
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    world.keep_history();
    template(&mut world, "msa", "msa:0.4.1{{");
    world.run_for(seconds(60)).unwrap();
    let (reason, message) = progress(&world);
    assert_eq!(reason, "ConfigurationInvalid");
    assert!(message.contains("opens a variable with {{ and does not close it"), "{message}");
    let writes = world.take_history();
    let touched =
        writes.iter().find(|w| ["ManagedClusterAddOn", "ManifestWork"].contains(&w.id.kind.as_str()));
    assert!(touched.is_none(), "{touched:?}");
    template(&mut world, "msa", "msa:0.4.1");
    assert!(world.run_until(seconds(60), is_completed).unwrap(), "{:?}", progress(&world));
    assert_eq!(images(&world), ["0.4.1", "0.4.1", "0.4.1"]);
}

/// Returns the hashes of the snapshots of the add-on.
fn snapshots(world: &World) -> Vec<String> {
    let all = world.list::<ControllerRevision>();
    all.into_iter().filter_map(|one| one.metadata.name).collect()
}

#[test]
fn snapshots_beyond_the_limit_go_and_those_in_use_stay() {
    let mut world = world(2);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    let good = snapshots(&world);
    assert_eq!(good.len(), 1);
    // The canary never completes a version that does not work, so the other cluster runs the first version
    // all the time.
    for version in 0..20 {
        template(&mut world, "msa", &format!("msa:0.5.{version}"));
        world.run_for(seconds(30)).unwrap();
    }
    assert_eq!(images(&world)[1], "0.4.0");
    let held = snapshots(&world);
    assert!(held.contains(&good[0]) && held.len() <= 13, "{} are kept", held.len());
    template(&mut world, "msa", "msa:0.4.0");
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    world.delete::<ClusterManagementAddOn>(&Key::cluster(ADDON)).unwrap();
    world.run_for(seconds(60)).unwrap();
    assert_eq!(snapshots(&world), Vec::<String>::new());
}
