//! The bytes in flight from all servers. They are on disk before they are part of a mirror.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum bytes in flight. The other half of the chart's volume is for mirrors.
const MAX_ARRIVING_BYTES: u64 = 10 << 30;

/// The responses in flight.
///
/// Above three quarters of the limit, only responses smaller than the average may continue, so that a few large
/// ones cannot block small ones.
#[derive(Debug)]
pub(crate) struct Arrivals {
    limit: u64,
    /// The received bytes of each session.
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    bytes: BTreeMap<u64, u64>,
    next: u64,
    /// The received bytes since the last [`Arrivals::take_count`].
    uncounted: u64,
    /// The sent bytes since the last [`Arrivals::take_sent`].
    uncounted_sent: u64,
}

/// The share of one session.
#[derive(Debug)]
pub(super) struct Arrival {
    all: Arc<Arrivals>,
    id: u64,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new(MAX_ARRIVING_BYTES)
    }
}

impl Arrivals {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, sessions: Mutex::default() }
    }

    /// Returns the number of bytes received since the last call.
    pub(crate) fn take_count(&self) -> u64 {
        std::mem::take(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner).uncounted)
    }

    /// Returns the number of bytes sent since the last call.
    pub(crate) fn take_sent(&self) -> u64 {
        std::mem::take(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner).uncounted_sent)
    }

    pub(super) fn begin(all: &Arc<Self>) -> Arrival {
        let mut sessions = all.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let id = sessions.next;
        sessions.next += 1;
        sessions.bytes.insert(id, 0);
        Arrival { all: Arc::clone(all), id }
    }
}

impl Arrival {
    /// Counts sent bytes, which are not limited.
    pub(super) fn sent(&self, bytes: u64) {
        let mut sessions = self.all.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.uncounted_sent = sessions.uncounted_sent.saturating_add(bytes);
    }

    /// Counts received bytes.
    ///
    /// # Errors
    /// Returns the limit if this session must stop.
    pub(super) fn add(&self, bytes: u64) -> Result<(), u64> {
        let limit = self.all.limit;
        let mut sessions = self.all.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = u64::try_from(sessions.bytes.len()).unwrap_or(u64::MAX);
        let total = sessions.bytes.values().sum::<u64>().saturating_add(bytes);
        sessions.uncounted = sessions.uncounted.saturating_add(bytes);
        let own = sessions.bytes.entry(self.id).or_default();
        *own = own.saturating_add(bytes);
        let is_small = own.saturating_mul(count) < total;
        if total <= limit / 4 * 3 || is_small && total <= limit { Ok(()) } else { Err(limit) }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.all.sessions.lock().unwrap_or_else(PoisonError::into_inner).bytes.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arriving_data_has_a_total_limit_and_the_largest_answers_end_first() {
        let all = Arc::new(Arrivals::new(1_000));
        let [large, small, other] = [(); 3].map(|()| Arrivals::begin(&all));
        assert_eq!(large.add(700), Ok(()));
        assert_eq!(small.add(100), Ok(()));
        assert_eq!(large.add(1), Err(1_000));
        assert_eq!(other.add(150), Ok(()), "a small answer goes on");
        assert_eq!(small.add(100), Err(1_000), "up to the limit");
        drop(large);
        assert_eq!(
            (small.add(100), other.add(100)),
            (Ok(()), Ok(())),
            "bytes of a session that has ended do not count"
        );
        assert_eq!((all.take_count(), all.take_count()), (1_251, 0));
    }
}
