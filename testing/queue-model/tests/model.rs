//! Model checks of the work queue: whatever the order of threads, no worker sleeps while a key is ready. A lost wakeup ends in a
//! deadlock, which the model checker reports with the schedule that led to it.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
};

use k3_queue_model::workqueue::{WorkItem, WorkQueue, WorkQueueOptions};
use shuttle::{
    future::{block_on, spawn},
    thread,
};

/// How many schedules each check tries.
const SCHEDULES: usize = 3000;

/// Tries random schedules, and schedules with few preemptions, which find other errors (probabilistic concurrency testing).
fn check(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let same = Arc::clone(&model);
    shuttle::check_random(move || model(), SCHEDULES);
    shuttle::check_pct(move || same(), SCHEDULES, 3);
}

fn queue() -> WorkQueue<u8> {
    WorkQueue::new(WorkQueueOptions::default())
}

#[test]
fn each_key_wakes_a_worker() {
    check(|| {
        let queue = queue();
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || block_on(async { queue.next().await.map(WorkItem::done).is_some() }))
            })
            .collect();
        let adders: Vec<_> = (0..2)
            .map(|key| {
                let queue = queue.clone();
                thread::spawn(move || queue.add(key))
            })
            .collect();
        for adder in adders {
            adder.join().unwrap();
        }
        for worker in workers {
            assert!(worker.join().unwrap());
        }
    });
}

#[test]
fn a_key_has_one_worker_and_runs_again_for_later_additions() {
    check(|| {
        let queue = queue();
        let running = Arc::new(AtomicUsize::new(0));
        let added = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                let running = Arc::clone(&running);
                let added = Arc::clone(&added);
                thread::spawn(move || {
                    block_on(async {
                        let mut seen = 0;
                        let mut next = queue.next();
                        while let Some(item) = next.await {
                            assert_eq!(running.fetch_add(1, SeqCst), 0, "no other worker has it");
                            seen = added.load(SeqCst);
                            thread::yield_now();
                            running.fetch_sub(1, SeqCst);
                            next = item.done_and_next().1;
                        }
                        seen
                    })
                })
            })
            .collect();
        for _ in 0..3 {
            added.fetch_add(1, SeqCst);
            queue.add(7);
            thread::yield_now();
        }
        queue.close();
        let seen = workers.into_iter().map(|worker| worker.join().unwrap()).max();
        assert_eq!(
            seen,
            Some(3),
            "the last addition was seen by a run that started after it"
        );
    });
}

#[test]
fn a_worker_that_stops_waiting_passes_the_wakeup_on() {
    check(|| {
        let queue = queue();
        let impatient = {
            let queue = queue.clone();
            spawn(async move {
                let mut next = pin!(queue.next());
                // Starts waiting, and is dropped before, while or after it is woken.
                let found = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
                shuttle::future::yield_now().await;
                match found {
                    Poll::Ready(Some(item)) => {
                        item.done();
                        1
                    }
                    _ => 0,
                }
            })
        };
        let patient = {
            let queue = queue.clone();
            spawn(async move {
                let mut done = 0;
                while let Some(item) = queue.next().await {
                    item.done();
                    done += 1;
                }
                done
            })
        };
        let adder = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.add(1);
                queue.add(2);
            })
        };
        adder.join().unwrap();
        block_on(async {
            let first: usize = impatient.await.unwrap();
            // Nothing wakes a worker from here on: the wakeups for both keys must have been passed on.
            queue.wait_until_drained().await;
            queue.close();
            assert_eq!(first + patient.await.unwrap(), 2);
        });
    });
}

#[test]
fn close_wakes_all_workers() {
    check(|| {
        let queue = queue();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move {
                    let mut next = queue.next();
                    while let Some(item) = next.await {
                        next = item.done_and_next().1;
                    }
                })
            })
            .collect();
        queue.add(1);
        queue.close();
        block_on(async {
            for worker in workers {
                worker.await.unwrap();
            }
            queue.wait_until_drained().await;
        });
    });
}
