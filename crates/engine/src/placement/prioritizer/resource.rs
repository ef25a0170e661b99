//! Prefers clusters with much of a resource to give.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::MAX_SCORE;
use api::cluster::v1::ManagedCluster;

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
    status.allocatable.get(name).and_then(quantity)
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

/// Reads a quantity such as `500m`, `2` or `16Gi`.
fn quantity(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic() && !(c == 'e' || c == 'E')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    // `5E` is five exa, `5E3` five thousand.
    let (number, exa) = match number.strip_suffix('E') {
        Some(number) if suffix.is_empty() || suffix == "i" => (number, true),
        Some(_) | None => (number, false),
    };
    let scale = match (exa, suffix) {
        (true, "") => 1e18,
        (true, "i") => 1024_f64.powi(6),
        (_, "n") => 1e-9,
        (_, "u") => 1e-6,
        (_, "m") => 1e-3,
        (_, "") => 1.0,
        (_, "k") => 1e3,
        (_, "M") => 1e6,
        (_, "G") => 1e9,
        (_, "T") => 1e12,
        (_, "P") => 1e15,
        (_, "Ki") => 1024.0,
        (_, "Mi") => 1024_f64.powi(2),
        (_, "Gi") => 1024_f64.powi(3),
        (_, "Ti") => 1024_f64.powi(4),
        (_, "Pi") => 1024_f64.powi(5),
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, value) in [
            ("500m", Some(0.5)),
            ("2", Some(2.0)),
            ("1.5Gi", Some(1_610_612_736.0)),
            ("3k", Some(3000.0)),
            ("1e3", Some(1000.0)),
            ("2E", Some(2e18)),
            ("x", None),
            ("1Zi", None),
        ] {
            assert_eq!(quantity(&Quantity(text.into())), value, "{text}");
        }
    }

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
