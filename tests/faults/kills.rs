//! Runs `kill -9` on every process of the chain while commits arrive.

use std::time::{Duration, Instant};

use super::chain::CLUSTERS;
use super::fleet::Fleet;

/// Returns the number of kills in one run; `make chaos` sets more.
fn kills() -> usize {
    std::env::var("CHAIN_KILLS").map_or(5, |text| text.parse().expect("CHAIN_KILLS is a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_commit_arrives_regardless_of_what_is_killed() {
    let mut fleet = Fleet::start_with_git_server().await;
    let (before, began) = (fleet.standing().await, Instant::now());
    for kill in 0..kills() {
        fleet.commit(&format!("word-{kill}"), &[]);
        // The kills happen at different stages of the commit.
        tokio::time::sleep(Duration::from_millis(130 * (kill as u64 * 7 % 20))).await;
        match kill % 5 {
            0 => fleet.restart_operator(),
            1 => {
                fleet.hub.kill_apiserver();
                fleet.hub.restart_apiserver().await;
            }
            2 => fleet.restart_agent(),
            3 => fleet.restart_daemon(),
            _ => {
                fleet.spoke.kill_apiserver();
                fleet.spoke.restart_apiserver().await;
            }
        }
    }
    fleet.commit("the last word", &[]);
    fleet.arrives("the last word", CLUSTERS, "after all kills").await;
    let after = fleet.standing().await;
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "objects came or went");
    let commits = i64::try_from(kills()).unwrap() + 1;
    for (id, (uid, generation)) in &after {
        let (old_uid, old_generation) = &before[id];
        assert_eq!(uid, old_uid, "{id} is another one");
        assert!(
            *generation <= old_generation + commits,
            "{id} was changed {} times",
            generation - old_generation
        );
    }
    eprintln!("{} kills and {commits} commits in {} s", kills(), began.elapsed().as_secs());
}
