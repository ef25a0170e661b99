//! Prefers clusters with much of a resource to give.

use super::MAX_SCORE;
use api::cluster::v1::ManagedCluster;
use object::quantity;

/// A resource clusters report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// `cpu`.
    Cpu,
    /// `memory`.
    Memory,
}

/// Least and most of a resource among the feasible clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Least; infinite where no cluster reports any.
    pub least: f64,
    /// Most; negative infinite where no cluster reports any.
    pub most: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Range {
    /// Widens the range to a value.
    pub fn take(&mut self, value: f64) {
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }
}

/// What a cluster can give of a resource; `None` unless it reports both what is allocatable and what there is.
pub fn allocatable(cluster: &ManagedCluster, resource: Resource) -> Option<f64> {
    let name = match resource {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
    };
    let status = cluster.status.as_ref()?;
    status.capacity.get(name)?;
    let nanos = quantity::nanos(&status.allocatable.get(name)?.0)?;
    #[expect(clippy::cast_precision_loss, reason = "scores have two digits")]
    let units = nanos as f64 / quantity::NANO as f64;
    Some(units)
}

/// The place of a value in the range, from -100 to 100; all get 100 where all are equal.
pub fn score(value: f64, range: Range) -> i64 {
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
