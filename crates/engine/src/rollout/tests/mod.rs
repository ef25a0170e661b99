use std::sync::Mutex;

mod breach;
mod compat;
mod fleet;
mod incremental;
mod model;
mod properties;

/// Runs a test for each task on all cores, starting with the last task. Each thread has the name of its test, so
/// that a panic names it.
fn on_all_cores<T: Send, R: Send>(
    tasks: impl IntoIterator<Item = T>,
    test: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let tasks = Mutex::new(Vec::from_iter(tasks));
    let next = || tasks.lock().unwrap().pop();
    std::thread::scope(|scope| {
        let work = || std::iter::from_fn(next).map(&test).collect::<Vec<_>>();
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let spawn = |_| std::thread::Builder::new().name(name.clone()).spawn_scoped(scope, work).unwrap();
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    })
}
