//! The bytes that arrive from all servers at once. They are on disk before they belong to a mirror.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes that arrive at once: the other half of the volume of the chart is for mirrors.
const MAX_ARRIVING_BYTES: u64 = 10 << 30;

/// The answers that arrive.
///
/// From three quarters of the limit on, only answers smaller than the average go on. So a few large ones keep
/// no small one out.
#[derive(Debug)]
pub(crate) struct Arrivals {
    limit: u64,
    /// The bytes of each session.
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    bytes: BTreeMap<u64, u64>,
    next: u64,
    /// The bytes that nobody has asked for yet.
    uncounted: u64,
    /// The bytes that were sent to servers, and that nobody has asked for yet.
    uncounted_sent: u64,
}

/// One session among them.
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

    /// Returns how many bytes have arrived since the last call.
    pub(crate) fn take_count(&self) -> u64 {
        std::mem::take(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner).uncounted)
    }

    /// Returns how many bytes were sent since the last call.
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
    /// Counts bytes that were sent. They have no limit.
    pub(super) fn sent(&self, bytes: u64) {
        let mut sessions = self.all.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.uncounted_sent = sessions.uncounted_sent.saturating_add(bytes);
    }

    /// Counts bytes.
    ///
    /// # Errors
    /// The limit, if this session goes no further.
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
    fn what_arrives_at_once_has_a_limit_and_the_larger_answers_end_first() {
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
