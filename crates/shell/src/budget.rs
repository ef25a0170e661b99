//! A memory budget for the objects that a process caches, so that no client of an API server can push the process
//! over its memory limit.
//!
//! Objects of ordinary size do not count, because their number is the size of the fleet, which the memory limit
//! accounts for. An object over budget is not read. It is reported like an object that does not fit its type, and
//! blocks only what depends on it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::Key;

/// The weight up to which objects do not count. An add-on with its status has 7 KiB of JSON, which weighs 30 KiB.
pub(super) const SMALL: usize = 64 << 10;
/// The smallest memory limit that budgets are computed for. The process cannot work with less.
const LEAST: usize = 64 << 20;

/// The memory that the large objects of all kinds use.
pub(super) static MEMORY: LazyLock<Memory> = LazyLock::new(|| Memory::new(memory_limit()));

/// The budgets of a process, and how much is used.
#[derive(Debug)]
pub(super) struct Memory {
    /// For all kinds: 7/16 of the limit. The rest is for ordinary objects, pages being received, and the program.
    total: usize,
    /// For a kind: 5/16, so that no kind uses up the whole budget.
    kind: usize,
    /// For a namespace or a cluster-scoped object: 1/16. An agent writes to one of each.
    writer: usize,
    used: AtomicUsize,
}

impl Memory {
    pub(super) fn new(limit: usize) -> Self {
        let sixteenth = limit.max(LEAST) / 16;
        Self { total: 7 * sixteenth, kind: 5 * sixteenth, writer: sixteenth, used: AtomicUsize::new(0) }
    }
}

/// The large cached objects of one kind.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    memory: &'a Memory,
    objects: BTreeMap<Key, usize>,
    writers: BTreeMap<String, usize>,
    sum: usize,
}

impl<'a> Admitted<'a> {
    pub(super) fn new(memory: &'a Memory) -> Self {
        Self { memory, objects: BTreeMap::new(), writers: BTreeMap::new(), sum: 0 }
    }

    /// Forgets all objects, because a new list replaces them.
    pub(super) fn clear(&mut self) {
        // Dropping the old value returns its memory to the budget.
        *self = Self::new(self.memory);
    }

    /// Counts an object in place of its earlier state.
    ///
    /// # Errors
    /// Returns the reason why the object must not be cached; its earlier state still counts.
    pub(super) fn admit(&mut self, key: &Key, weight: usize) -> Result<(), String> {
        let before = self.objects.get(key).copied().unwrap_or_default();
        let weight = if weight > SMALL { weight } else { 0 };
        let Memory { total, kind, writer, used } = self.memory;
        let of_writer = self.writers.get(writer_of(key)).copied().unwrap_or_default();
        let budgets = [
            (of_writer, *writer, "its namespace or cluster"),
            (self.sum, *kind, "its kind"),
            (used.load(Ordering::Relaxed), *total, "all kinds"),
        ];
        let is_over =
            |(now, budget, _): &&(usize, usize, &str)| weight > before && now - before + weight > *budget;
        if let Some((_, budget, whose)) = budgets.iter().find(is_over) {
            return Err(format!(
                "it needs {} KiB of memory, and large objects of {whose} may use {} KiB in total",
                weight >> 10,
                budget >> 10
            ));
        }
        self.set(key, before, weight);
        Ok(())
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, key: &Key) {
        let before = self.objects.get(key).copied().unwrap_or_default();
        self.set(key, before, 0);
    }

    fn set(&mut self, key: &Key, before: usize, weight: usize) {
        if before == weight {
            return;
        }
        self.memory.used.fetch_add(weight, Ordering::Relaxed);
        self.memory.used.fetch_sub(before, Ordering::Relaxed);
        self.sum = self.sum + weight - before;
        let of_writer = self.writers.entry(writer_of(key).to_owned()).or_default();
        *of_writer = *of_writer + weight - before;
        if *of_writer == 0 {
            self.writers.remove(writer_of(key));
        }
        if weight == 0 {
            self.objects.remove(key);
        } else {
            self.objects.insert(key.clone(), weight);
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.sum, Ordering::Relaxed);
    }
}

/// Returns the namespace of an object, or the name of a cluster-scoped one.
fn writer_of(key: &Key) -> &str {
    if key.namespace.is_empty() { &key.name } else { &key.namespace }
}

/// Returns the memory that the process may use, in bytes: the lowest limit of its cgroups, its address space, its
/// data segment, and the memory of the machine.
pub fn memory_limit() -> usize {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let own = read("/proc/self/cgroup");
    let path = |name: &str| own.lines().find_map(|line| line.split_once(name)).map_or("", |(_, path)| path);
    let of_cgroups = [
        format!("/sys/fs/cgroup{}/memory.max", path("0::")),
        "/sys/fs/cgroup/memory.max".to_owned(),
        format!("/sys/fs/cgroup/memory{}/memory.limit_in_bytes", path(":memory:")),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned(),
    ];
    let of_cgroups = of_cgroups.iter().filter_map(|path| read(path).trim().parse().ok());
    let limits = read("/proc/self/limits");
    let of_process = limits.lines().filter_map(|line| {
        line.strip_prefix("Max address space").or_else(|| line.strip_prefix("Max data size"))
    });
    let of_process = of_process.filter_map(|rest| rest.split_whitespace().next()?.parse().ok());
    let machine = read("/proc/meminfo");
    let of_machine = machine
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok())
        .map(|kib| kib << 10);
    of_cgroups.chain(of_process).chain(of_machine).min().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn cluster(name: &str) -> Key {
        Key::cluster(name)
    }

    #[test]
    fn a_writer_takes_its_own_share_and_no_other() {
        let memory = Memory::new(512 * MIB);
        let mut admitted = Admitted::new(&memory);
        let large = |index: usize| Key::namespaced("loud", format!("w{index}"));
        let taken = (0..1000).filter(|index| admitted.admit(&large(*index), MIB).is_ok()).count();
        assert_eq!(taken, 32, "1/16 of the memory");
        assert!(admitted.admit(&large(2000), MIB).unwrap_err().contains("its namespace or cluster"));
        assert_eq!(admitted.admit(&Key::namespaced("calm", "w"), MIB), Ok(()));
        assert_eq!(admitted.admit(&large(3000), SMALL), Ok(()), "an ordinary object is not counted");
        admitted.forget(&large(0));
        assert_eq!(admitted.admit(&large(2000), MIB), Ok(()));
        assert_eq!(admitted.admit(&large(2000), MIB / 2), Ok(()), "less is always possible");
    }

    #[test]
    fn writers_share_the_budget_of_their_kind_and_kinds_share_the_budget_of_the_process() {
        let memory = Memory::new(512 * MIB);
        let mut kinds = [(); 3].map(|()| Admitted::new(&memory));
        let [first, second, third] = &mut kinds;
        let fill = |admitted: &mut Admitted<'_>| {
            (0..1000).filter(|index| admitted.admit(&cluster(&format!("c{index}")), MIB).is_ok()).count()
        };
        assert_eq!([fill(first), fill(second), fill(third)], [160, 64, 0]);
        first.clear();
        assert_eq!([fill(third), fill(first)], [160, 0]);
        drop(kinds);
        assert_eq!(memory.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_limit_of_this_process_is_known() {
        assert!(memory_limit() < usize::MAX);
    }
}
