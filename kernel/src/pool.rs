//! Threads that help a call: made on first use, shared by all callers, idle when nobody calls.
//!
//! The caller always works too, so a call goes on where no thread can be had. After a fork the child makes its own
//! pool; the parent's, whose threads the child does not have, is left alone.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

const MAX_THREADS: usize = 256;

/// The pool of this process. Pools are never freed: threads may hold them until the process ends.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

struct Pool {
    process: u32,
    queue: Mutex<Queue>,
    wake: Condvar,
}

struct Queue {
    jobs: VecDeque<&'static Job<'static>>,
    threads: usize,
    idle: usize,
}

/// One call's work. It lives on the caller's stack until `finish` has seen the last helper leave.
struct Job<'w> {
    work: &'w (dyn Fn() + Sync),
    state: Mutex<JobState>,
    left: Condvar,
}

struct JobState {
    /// How many more helpers may come.
    wanted: usize,
    working: usize,
    panic: Option<Box<dyn Any + Send>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pointer as it is, and the pool behind it if it is this process's.
fn current() -> (*mut Pool, Option<&'static Pool>) {
    let found = POOL.load(Ordering::Acquire);
    // SAFETY: the pointer is null or came from `Box::leak` below, and pools are never freed.
    let pool = unsafe { found.as_ref() };
    (found, pool.filter(|pool| pool.process == std::process::id()))
}

fn pool() -> &'static Pool {
    loop {
        let (found, pool) = current();
        if let Some(pool) = pool {
            return pool;
        }
        let made: *mut Pool = Box::leak(Box::new(Pool {
            process: std::process::id(),
            queue: Mutex::new(Queue { jobs: VecDeque::new(), threads: 0, idle: 0 }),
            wake: Condvar::new(),
        }));
        // Whoever loses the race leaves a few bytes behind, once in a process's life.
        let _ = POOL.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// How many threads of the pool are alive in this process.
pub fn threads_alive() -> usize {
    current().1.map_or(0, |pool| lock(&pool.queue).threads)
}

/// Runs `work` on this thread and on up to `threads - 1` others at the same time, and returns when all have returned.
/// `work` takes its share from a counter it owns, so it does not matter how many come. A panic in any is raised here.
pub fn run(threads: usize, work: &(dyn Fn() + Sync)) {
    let helpers = threads.clamp(1, MAX_THREADS) - 1;
    if helpers == 0 {
        return work();
    }
    let job =
        Job { work, state: Mutex::new(JobState { wanted: helpers, working: 0, panic: None }), left: Condvar::new() };
    // SAFETY: the lifetimes are stretched only for the queue; `finish` takes the job out of the queue and waits for the
    // last helper before this frame, which owns the job and `work`'s borrow, can end, also when the caller's own share
    // panics.
    let shared = unsafe { std::mem::transmute::<&Job<'_>, &'static Job<'static>>(&job) };
    let pool = pool();
    pool.add(shared, helpers);
    let own = catch_unwind(AssertUnwindSafe(work));
    let panic = pool.finish(shared);
    if let Some(panic) = own.err().or(panic) {
        std::panic::resume_unwind(panic);
    }
}

impl Pool {
    fn add(&'static self, job: &'static Job<'static>, helpers: usize) {
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(job);
        // Threads only for what the waiting ones cannot take, and never more than the largest call has asked for.
        let missing = helpers.saturating_sub(queue.threads);
        for _ in 0..missing {
            let spawned =
                std::thread::Builder::new().name("terrazzo".into()).stack_size(1 << 20).spawn(move || self.serve());
            if spawned.is_err() {
                break;
            }
            queue.threads += 1;
        }
        let idle = queue.idle;
        drop(queue);
        for _ in 0..helpers.min(idle) {
            self.wake.notify_one();
        }
    }

    /// A helper's life: take the job that has waited longest, put it back if it wants more, work until it is done.
    fn serve(&self) {
        let mut queue = lock(&self.queue);
        loop {
            let Some(job) = queue.jobs.pop_front() else {
                queue.idle += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            let mut state = lock(&job.state);
            state.wanted -= 1;
            state.working += 1;
            if state.wanted > 0 {
                queue.jobs.push_back(job);
            }
            drop(state);
            drop(queue);
            let result = catch_unwind(AssertUnwindSafe(job.work));
            let mut state = lock(&job.state);
            state.working -= 1;
            if let Err(panic) = result {
                state.panic.get_or_insert(panic);
            }
            // Under the lock, so that the caller cannot free the job between the count and the notice.
            job.left.notify_one();
            drop(state);
            queue = lock(&self.queue);
        }
    }

    fn finish(&self, job: &'static Job<'static>) -> Option<Box<dyn Any + Send>> {
        lock(&self.queue).jobs.retain(|&waiting| !std::ptr::eq(waiting, job));
        let mut state = lock(&job.state);
        while state.working > 0 {
            state = job.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.panic.take()
    }
}

/// A flag that one thread raises and all look at.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Flag {
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn count(threads: usize, total: usize) -> usize {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        run(threads, &|| {
            while next.fetch_add(1, Ordering::Relaxed) < total {
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        done.into_inner()
    }

    #[test]
    fn every_share_is_done_once_whoever_calls() {
        std::thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || (0..50).for_each(|round| assert_eq!(count(1 + caller, 10 * round), 10 * round)));
            }
        });
        assert!(threads_alive() <= 3);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let caught = catch_unwind(|| run(3, &|| panic!("on purpose")));
        assert!(caught.is_err());
        assert_eq!(count(3, 100), 100);
    }
}
