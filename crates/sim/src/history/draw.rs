//! Draws the events of a history.

use super::{Content, Edit, HistoryEvent, SetContent};
use crate::Faults;
use object::Random;

/// Maximum number of clusters in a world.
const CLUSTERS: u64 = 5;

/// Draws a history: a fleet joins, a first commit is made, and more events follow.
pub(super) fn history(random: &mut Random) -> Vec<HistoryEvent> {
    let mut events: Vec<HistoryEvent> = (0..=small(random, 4)).map(|cluster| join(random, cluster)).collect();
    let mut content = Content::first(random);
    events.extend([HistoryEvent::Wait(15), HistoryEvent::Commit(content.clone())]);
    if random.chance(500) {
        events.push(HistoryEvent::Faults(faults(random)));
    }
    for _ in 0..2 + small(random, 12) {
        events.push(HistoryEvent::Wait(wait(random)));
        events.push(event(random, &mut content));
    }
    events
}

/// Adds clock jumps of the operator and of clusters, forward and back: by seconds, as a time server corrects them,
/// or by hours, as a person may misconfigure them.
pub(super) fn jumps(random: &mut Random, events: &mut Vec<HistoryEvent>) {
    const AHEAD: [i16; 9] = [-3600, -400, -60, -7, 0, 7, 60, 400, 3600];
    for _ in 0..=small(random, 4) {
        let cluster = random.chance(500).then(|| small(random, CLUSTERS));
        let ahead = AHEAD.get(usize::from(small(random, 9))).copied().unwrap_or_default();
        let at = place(random, events);
        events.insert(at, HistoryEvent::Clock { cluster, ahead });
    }
}

/// Adds events that create, change, delete and recreate a set.
pub(super) fn sets(random: &mut Random, events: &mut Vec<HistoryEvent>) {
    let mut places: Vec<u64> = (0..4 + random.below(6)).map(|_| random.below(events.len() as u64)).collect();
    places.sort_unstable();
    let (mut content, mut exists) = (SetContent::first(random), false);
    for (earlier, place) in places.into_iter().enumerate() {
        exists = !exists || random.chance(850);
        let at = usize::try_from(place).unwrap_or_default() + earlier;
        events.insert(at, HistoryEvent::Set(exists.then_some(content)));
        content.change(random);
    }
}

/// Adds failing lists, panicking decisions, agents that start without the hub, and, in most histories, a restore
/// of the hub.
pub(super) fn outages(random: &mut Random, events: &mut Vec<HistoryEvent>) {
    let (unlisted, panics) = (u32::from(small(random, 80)), u32::from(small(random, 40)));
    events.insert(place(random, events), HistoryEvent::Faults(Faults::default()));
    for event in &mut *events {
        if let HistoryEvent::Faults(faults) = event {
            *faults = Faults { unlisted, panics, ..*faults };
        }
    }
    for _ in 0..small(random, 4) {
        let cluster = small(random, CLUSTERS);
        events.insert(place(random, events), HistoryEvent::RestartAgentAlone(cluster));
    }
    if random.chance(700) {
        let mut places = [place(random, events), place(random, events)];
        places.sort_unstable();
        let [backup, restore] = places;
        events.insert(restore, HistoryEvent::RestoreHub);
        events.insert(backup, HistoryEvent::BackUpHub);
    }
}

fn place(random: &mut Random, events: &[HistoryEvent]) -> usize {
    usize::try_from(random.below(events.len() as u64)).unwrap_or_default()
}

fn event(random: &mut Random, content: &mut Content) -> HistoryEvent {
    let cluster = small(random, CLUSTERS);
    match random.below(100) {
        0..34 => {
            content.change(random);
            HistoryEvent::Commit(content.clone())
        }
        34..42 => join(random, cluster),
        42..46 => HistoryEvent::Leave(cluster),
        46..51 => HistoryEvent::Label { cluster, canary: random.chance(300), prod: random.chance(700) },
        51..57 => HistoryEvent::Network { cluster, connected: random.chance(500) },
        57..61 => HistoryEvent::FetchFails,
        61..66 => HistoryEvent::ApproveDeletions,
        66..68 => HistoryEvent::Suspend(random.chance(300)),
        68..69 => HistoryEvent::DeleteRepo,
        69..74 => HistoryEvent::Policy(random.chance(700).then(|| small(random, 6))),
        74..75 => HistoryEvent::DeletePlacement,
        75..81 => HistoryEvent::Work { cluster, maps: small(random, 8), value: small(random, 3) },
        81..90 => HistoryEvent::ExternalEdit(edit(random, cluster)),
        90..94 => HistoryEvent::KillOperator(small(random, 12)),
        94..95 => HistoryEvent::RestartOperator,
        95..97 => HistoryEvent::RestartAgent(cluster),
        _ => HistoryEvent::Faults(faults(random)),
    }
}

fn join(random: &mut Random, cluster: u8) -> HistoryEvent {
    HistoryEvent::Join {
        cluster,
        canary: random.chance(300),
        prod: random.chance(800),
        works: if random.chance(700) { u8::MAX } else { small(random, 256) },
        ready_after: small(random, 8),
    }
}

fn edit(random: &mut Random, cluster: u8) -> Edit {
    let map = small(random, 8);
    match random.below(10) {
        0..2 => Edit::WriteMap(map),
        2 => Edit::DeleteMap(map),
        3 => Edit::UnmarkMap(map),
        4 => Edit::DeleteDecision,
        5 => Edit::DeleteAddOn(cluster),
        6 => Edit::DeleteWorks(cluster),
        7 => Edit::DeleteDeployment(cluster),
        8 => Edit::ScaleDeployment(cluster),
        _ => Edit::WriteSpokeMap(cluster, map % 3),
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut permille = |below: u64| if random.chance(500) { 0 } else { u32::from(small(random, below)) };
    Faults { refused: permille(120), answer_lost: permille(120), stale: permille(250), ..Faults::default() }
}

/// Draws a wait: usually short, so that events overlap; sometimes long enough for a deadline or lease to expire.
fn wait(random: &mut Random) -> u16 {
    match random.below(10) {
        0..4 => 0,
        4..7 => u16::from(small(random, 5)),
        7..9 => u16::from(small(random, 40)),
        _ => 60 * u16::from(small(random, 8)),
    }
}

fn small(random: &mut Random, below: u64) -> u8 {
    u8::try_from(random.below(below)).unwrap_or_default()
}
