//! Threads that compile, at most one a core: first what somebody waits for, then what will be asked for.

use super::{Compiled, Compiler};
use crate::RuntimeError;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use wgoose_kernels::{Kernel, KernelHash};

/// How a compilation ended.
enum Ended {
    Compiled(Compiled),
    Failed(RuntimeError),
    /// With a bug, which is told where the kernel is waited for.
    Panicked(Box<dyn Any + Send>),
}

impl Ended {
    fn of(compile: impl FnOnce() -> Result<Compiled, RuntimeError>) -> Self {
        match catch_unwind(AssertUnwindSafe(compile)) {
            Ok(Ok(compiled)) => Ended::Compiled(compiled),
            Ok(Err(error)) => Ended::Failed(error),
            Err(panic) => Ended::Panicked(panic),
        }
    }
}

/// Finds out which kernels will be asked for.
type Find = Box<dyn FnOnce() -> Vec<Kernel> + Send>;

/// The threads. They end when nothing is left to compile.
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    compiler: Compiler,
    queue: Mutex<Queue>,
    /// Something has ended.
    ended: Condvar,
}

/// What is to be compiled, the last one first, once what is to be found out is.
#[derive(Default)]
struct Lane {
    finds: Vec<Find>,
    kernels: Vec<Kernel>,
}

/// Whether somebody waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// For the pass at hand, or for what follows it at once.
    Wanted,
    /// Not yet.
    Ahead,
}

#[derive(Default)]
struct Queue {
    wanted: Lane,
    ahead: Lane,
    running: HashSet<KernelHash>,
    done: HashMap<KernelHash, Ended>,
    /// How many threads are at work.
    working: usize,
    threads: Vec<JoinHandle<()>>,
}

enum Task {
    Compile(Kernel),
    Find(Find, Urgency),
}

impl Lane {
    fn len(&self) -> usize {
        self.finds.len() + self.kernels.len()
    }
}

impl Queue {
    fn next(&mut self) -> Option<Task> {
        for (lane, urgency) in [(&mut self.wanted, Urgency::Wanted), (&mut self.ahead, Urgency::Ahead)] {
            if let Some(find) = lane.finds.pop() {
                return Some(Task::Find(find, urgency));
            }
            if let Some(kernel) = lane.kernels.pop() {
                self.running.insert(kernel.hash);
                return Some(Task::Compile(kernel));
            }
        }
        None
    }

    /// Adds kernels that are not begun, nor will be before these.
    fn add<'a>(&mut self, kernels: impl Iterator<Item = &'a Kernel>, urgency: Urgency) {
        for kernel in longest_last(kernels) {
            if urgency == Urgency::Wanted {
                self.ahead.kernels.retain(|other| other.hash != kernel.hash);
            }
            let waits = self.wanted.kernels.iter().any(|other| other.hash == kernel.hash);
            if waits || self.running.contains(&kernel.hash) || self.done.contains_key(&kernel.hash) {
                continue;
            }
            match urgency {
                Urgency::Wanted => self.wanted.kernels.push(kernel.clone()),
                Urgency::Ahead => self.ahead.kernels.push(kernel.clone()),
            }
        }
    }

    fn len(&self) -> usize {
        self.wanted.len() + self.ahead.len()
    }
}

impl Pool {
    pub(super) fn new(compiler: Compiler) -> Self {
        let shared = Shared { compiler, queue: Mutex::new(Queue::default()), ended: Condvar::new() };
        Pool(Arc::new(shared))
    }

    /// What compiles.
    pub(super) fn compiler(&self) -> &Compiler {
        &self.0.compiler
    }

    /// Begins with kernels that somebody will wait for.
    pub(super) fn begin(&self, kernels: &[&Kernel]) {
        let mut queue = self.0.queue.lock();
        queue.add(kernels.iter().copied(), Urgency::Wanted);
        staff(&self.0, &mut queue);
    }

    /// Compiles what `find` gives beside what somebody waits for.
    pub(super) fn soon(&self, find: Find) {
        let mut queue = self.0.queue.lock();
        queue.wanted.finds.push(find);
        staff(&self.0, &mut queue);
    }

    /// Compiles what `find` gives on threads that nobody waits for.
    pub(super) fn ahead(&self, find: Find) {
        let mut queue = self.0.queue.lock();
        queue.ahead.finds.push(find);
        staff(&self.0, &mut queue);
    }

    /// Waits for a kernel that was begun.
    pub(super) fn wait(&self, hash: &KernelHash) -> Result<Compiled, RuntimeError> {
        let mut queue = self.0.queue.lock();
        loop {
            match queue.done.remove(hash) {
                Some(Ended::Compiled(compiled)) => return Ok(compiled),
                Some(Ended::Failed(error)) => return Err(error),
                Some(Ended::Panicked(panic)) => resume_unwind(panic),
                None => self.0.ended.wait(&mut queue),
            }
        }
    }
}

/// Kernels that take longest last, by their texts: what is begun last is what a pass waits for.
fn longest_last<'a>(kernels: impl Iterator<Item = &'a Kernel>) -> Vec<&'a Kernel> {
    let mut kernels: Vec<&Kernel> = kernels.collect();
    kernels.sort_by_key(|kernel| (kernel.wgsl.len(), kernel.hash));
    kernels
}

/// Has as many threads at work as there is work for.
fn staff(shared: &Arc<Shared>, queue: &mut Queue) {
    queue.threads.retain(|thread| !thread.is_finished());
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in queue.working..most.min(queue.working + queue.len()) {
        let shared = Arc::clone(shared);
        queue.working += 1;
        queue.threads.push(std::thread::spawn(move || work(&shared)));
    }
}

fn work(shared: &Arc<Shared>) {
    let mut queue = shared.queue.lock();
    while let Some(task) = queue.next() {
        match task {
            Task::Compile(kernel) => {
                let ended = MutexGuard::unlocked(&mut queue, || Ended::of(|| shared.compiler.compile(&kernel)));
                queue.running.remove(&kernel.hash);
                queue.done.insert(kernel.hash, ended);
                shared.ended.notify_all();
            }
            Task::Find(find, urgency) => {
                // What cannot be found says so where it is asked for.
                let find = || catch_unwind(AssertUnwindSafe(find)).unwrap_or_default();
                let found = MutexGuard::unlocked(&mut queue, find);
                queue.add(found.iter(), urgency);
                staff(shared, &mut queue);
            }
        }
    }
    queue.working -= 1;
}

impl Drop for Pool {
    fn drop(&mut self) {
        let threads = {
            let mut queue = self.0.queue.lock();
            (queue.wanted, queue.ahead) = (Lane::default(), Lane::default());
            std::mem::take(&mut queue.threads)
        };
        // Some drivers crash when a process ends amid a call.
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use crate::Device;
    use crate::pipelines::Pipelines;
    use crate::pipelines::compile::tests::kernel;

    #[test]
    fn a_pipeline_compiled_ahead_is_found_or_gives_its_error() {
        let device = Device::open(None).unwrap();
        let mut pipelines = Pipelines::new(device);
        let [one, two, wrong] = [kernel("1u", 1), kernel("2u", 2), kernel("no number", 3)];
        let found = vec![one.clone(), wrong.clone()];
        pipelines.compile_ahead(move || found);
        let soon = vec![one.clone()];
        pipelines.compile_soon(move || soon);
        pipelines.begin(&[&two, &one]);
        pipelines.compile(&[&one, &two, &one]).unwrap();
        assert!(pipelines.get(&one.hash).is_some() && pipelines.get(&two.hash).is_some());
        for _ in 0..2 {
            // It is compiled anew each time it is asked for, and what compiles beside it is kept.
            let error = pipelines.compile(&[&wrong, &kernel("4u", 4)]).unwrap_err();
            assert!(error.to_string().contains("writes no number"), "{error}");
        }
        assert!(pipelines.get(&kernel("4u", 4).hash).is_some() && pipelines.get(&wrong.hash).is_none());
        assert_eq!(pipelines.counts().compiled + pipelines.counts().found, 3);
    }

    #[test]
    fn unrequested_pipelines_do_not_delay_the_end() {
        let device = Device::open(None).unwrap();
        let pipelines = Pipelines::new(device);
        pipelines.compile_ahead(|| (10..40).map(|n| kernel("5u", n)).collect());
        pipelines.compile_ahead(|| panic!("while it looks"));
        drop(pipelines);
    }
}
