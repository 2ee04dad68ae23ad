//! No worker sleeps while there is a key, in whatever order threads run. A call that gets lost ends in a deadlock, which the
//! model checker reports with the order that led to it.

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

/// How many orders of threads are tried.
const ORDERS: usize = 3000;

/// Tries orders at random, and orders with few but well-placed interruptions, which find other mistakes.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    let same = Arc::clone(&model);
    shuttle::check_random(move || model(), ORDERS);
    shuttle::check_pct(move || same(), ORDERS, 3);
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
fn a_key_has_one_worker_and_runs_again_for_what_happened_meanwhile() {
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
                        while let Some(job) = next.await {
                            assert_eq!(running.fetch_add(1, SeqCst), 0, "no other worker has it");
                            seen = added.load(SeqCst);
                            thread::yield_now();
                            running.fetch_sub(1, SeqCst);
                            next = job.done_and_next().1;
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
            "the last event was seen by a run that began after it"
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
                // Falls asleep, and leaves before, while or after it is called.
                let found = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
                shuttle::future::yield_now().await;
                match found {
                    Poll::Ready(Some(job)) => {
                        job.done();
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
                while let Some(job) = queue.next().await {
                    job.done();
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
            // No worker is woken any more: the keys that are there must have been announced.
            queue.wait_until_drained().await;
            queue.close();
            assert_eq!(first + patient.await.unwrap(), 2);
        });
    });
}

#[test]
fn everybody_hears_of_the_end() {
    check(|| {
        let queue = queue();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move {
                    let mut next = queue.next();
                    while let Some(job) = next.await {
                        next = job.done_and_next().1;
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
