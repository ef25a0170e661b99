//! Places that users share fairly: concurrent requests, open watches, and connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use store::User;
use store::rbac::MASTERS;

/// A limited number of places.
///
/// A user may take a place while the free places outnumber the user's own. A single user therefore gets half of
/// the places, and a user without places always finds one, however many the others request. As places are
/// released and taken again, the shares of `n` competing users each approach `1/(n + 1)`. (Switches share their
/// buffers this way: "Dynamic queue length thresholds for shared-memory packet switches", Choudhury and Hahne,
/// 1998.) Members of `system:masters` are exempt, as in API Priority and Fairness of kube-apiserver.
#[derive(Debug)]
pub(super) struct Places(Mutex<Shares>);

#[derive(Debug)]
struct Shares {
    free: usize,
    used_by: BTreeMap<String, usize>,
}

/// One or more places, released on drop; `None` for exempt users.
#[derive(Debug)]
pub(super) struct Place(Option<(Arc<Places>, String, usize)>);

impl Places {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Shares { free: count, used_by: BTreeMap::new() })))
    }

    /// Takes a place; `None` if the user already has a fair share.
    pub(super) fn take(self: &Arc<Self>, user: &User) -> Option<Place> {
        self.take_many(user, 1)
    }

    /// Takes several places at once; `None` if they exceed the user's fair share.
    pub(super) fn take_many(self: &Arc<Self>, user: &User, count: usize) -> Option<Place> {
        self.take_of(user, |spare| (count <= spare).then_some(count))
    }

    /// Takes up to `most` places within the user's fair share; `None` if the user already has it.
    pub(super) fn take_up_to(self: &Arc<Self>, user: &User, most: usize) -> Option<Place> {
        // Each place taken adds one to the user's and removes one from the free places.
        self.take_of(user, |spare| (spare > 0).then(|| most.min(spare.div_ceil(2))))
    }

    /// Takes as many places as `count` returns for the difference between the free places and the user's
    /// places.
    fn take_of(self: &Arc<Self>, user: &User, count: impl FnOnce(usize) -> Option<usize>) -> Option<Place> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Some(Place(None));
        }
        let mut shares = self.shares();
        let used = shares.used_by.get(&user.name).copied().unwrap_or_default();
        let count = count(shares.free.saturating_sub(used))?;
        shares.free -= count;
        shares.used_by.insert(user.name.clone(), used + count);
        Some(Place(Some((self.clone(), user.name.clone(), count))))
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((places, user, count)) = &self.0 else { return };
        let mut shares = places.shares();
        shares.free += count;
        if let Some(used) = shares.used_by.get_mut(user) {
            *used -= count;
            if *used == 0 {
                shares.used_by.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.into(), ..User::default() }
    }

    /// Takes as many places as the user can get.
    fn all(places: &Arc<Places>, user: &User) -> Vec<Place> {
        std::iter::from_fn(|| places.take(user)).collect()
    }

    #[test]
    fn users_who_want_all_get_shares_and_leave_places_to_others() {
        let places = Places::new(600);
        let greedy: Vec<_> = ["a", "b", "c", "d"].map(|name| all(&places, &user(name))).into();
        assert_eq!(greedy.iter().map(Vec::len).collect::<Vec<_>>(), [300, 150, 75, 38]);
        let others: Vec<_> = (0..20).map(|i| places.take(&user(&format!("other-{i}")))).collect();
        assert!(others.iter().all(Option::is_some));
        assert!(places.take(&user("a")).is_none());
    }

    #[test]
    fn a_place_is_free_when_it_is_dropped() {
        let places = Places::new(2);
        let one = places.take(&user("a")).unwrap();
        assert!(places.take(&user("a")).is_none());
        drop(one);
        assert!(places.take(&user("a")).is_some());
        assert!(places.shares().used_by.is_empty() && places.shares().free == 2);
    }

    #[test]
    fn a_user_gets_at_most_the_fair_share() {
        let places = Places::new(600);
        let one = places.take_up_to(&user("a"), 10_000).unwrap();
        assert!(places.shares().free == 300 && places.take_up_to(&user("a"), 1).is_none());
        let other = places.take_up_to(&user("b"), 10_000).unwrap();
        assert_eq!(places.shares().free, 150);
        drop((one, other));
        assert_eq!(places.shares().free, 600);
    }

    #[test]
    fn administrators_are_exempt() {
        let places = Places::new(1);
        let _last = places.take(&user("a")).unwrap();
        let admins: Vec<_> = (0..10).map(|_| places.take(&User::admin())).collect();
        assert!(admins.iter().all(Option::is_some) && places.take(&user("b")).is_none());
    }
}
