//! Prefers clusters with a large amount of an allocatable resource.

use super::{MAX_SCORE, Prioritizer, Range, Scale, Score, ScoreInput};
use api::cluster::v1::ManagedCluster;
use object::quantity;

pub(super) static ALLOCATABLE_CPU: Prioritizer = Prioritizer {
    name: "ResourceAllocatableCPU",
    scale: Scale::Feasible(cpu),
    score: |input| rate(input, cpu),
    differs: |old, new| cpu(old) != cpu(new),
};

pub(super) static ALLOCATABLE_MEMORY: Prioritizer = Prioritizer {
    name: "ResourceAllocatableMemory",
    scale: Scale::Feasible(memory),
    score: |input| rate(input, memory),
    differs: |old, new| memory(old) != memory(new),
};

fn cpu(cluster: &ManagedCluster) -> Option<f64> {
    allocatable(cluster, "cpu")
}

fn memory(cluster: &ManagedCluster) -> Option<f64> {
    allocatable(cluster, "memory")
}

/// Returns the allocatable amount of a resource if the cluster reports both this and its capacity.
fn allocatable(cluster: &ManagedCluster, resource: &str) -> Option<f64> {
    let status = cluster.status.as_ref()?;
    status.capacity.get(resource)?;
    let nanos = quantity::nanos(&status.allocatable.get(resource)?.0)?;
    #[expect(clippy::cast_precision_loss, reason = "scores have two digits")]
    let units = nanos as f64 / quantity::NANO as f64;
    Some(units)
}

fn rate(input: &ScoreInput<'_>, reported: fn(&ManagedCluster) -> Option<f64>) -> Score {
    let amount = input.cycle.fleet.cluster(input.id).and_then(|cluster| reported(cluster));
    amount.map_or(Score::Unreported, |amount| Score::lasting(score(amount, input.range)))
}

/// Maps a value from the range to a score from -100 to 100. If all values are equal, the score is 100.
fn score(value: f64, range: Range) -> i64 {
    if range.most <= range.least {
        return MAX_SCORE;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -100 and 100")]
    let score = (((value - range.least) / (range.most - range.least) - 0.5) * 200.0) as i64;
    score
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_gets_minus_100_and_the_most_100() {
        let range = Range { least: 10.0, most: 30.0 };
        assert_eq!(
            [score(10.0, range), score(20.0, range), score(30.0, range), score(13.0, range)],
            [-100, 0, 100, -70]
        );
        assert_eq!(score(10.0, Range { least: 10.0, most: 10.0 }), 100);
    }
}
