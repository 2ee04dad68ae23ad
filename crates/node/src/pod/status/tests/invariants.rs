//! Invariants of statuses under random histories. A failure prints the seed.

use super::{super::is_terminal, *};

/// Deterministic pseudo-random numbers.
struct Rng(u64);

impl Rng {
    fn next_below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let index = self.next_below(choices.len().try_into().unwrap());
        choices[usize::try_from(index).unwrap()]
    }
}

/// Applies a random change to a container.
fn random_change(fixture: &mut StatusFixture, rng: &mut Rng, name: &str) {
    let newest = fixture
        .snapshot
        .containers
        .iter()
        .position(|one| one.name == name);
    match (newest, rng.next_below(8)) {
        (_, 0) => fixture.snapshot.containers.retain(|one| one.name != name),
        (None, 1..=4) => fixture
            .snapshot
            .containers
            .insert(0, container(name, 0, running())),
        (Some(index), 1) => fixture.snapshot.containers[index].state = exited(0),
        (Some(index), 2) => fixture.snapshot.containers[index].state = exited(1),
        (Some(index), 3) => fixture.snapshot.containers[index].state = ContainerState::Unknown,
        (Some(index), 4) if !fixture.snapshot.containers[index].is_running() => {
            let attempt = fixture.snapshot.containers[index].attempt + 1;
            fixture
                .snapshot
                .containers
                .insert(0, container(name, attempt, running()));
        }
        _ => {}
    }
}

fn count(status: &PodStatus) -> i32 {
    let lists = [&status.container_statuses, &status.init_container_statuses];
    lists
        .into_iter()
        .flatten()
        .flatten()
        .map(|one| one.restart_count)
        .sum()
}

#[test]
fn invariants_hold_for_random_histories() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let policy = rng.pick(&["Always", "OnFailure", "Never"]);
        let mut fixture = super::fixture(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}],
        }));
        fixture.snapshot.sandboxes = vec![sandbox("s1", SandboxState::Ready)];
        let mut before = fixture.status();
        fixture.previous = Some(before.clone());
        for step in 0..40 {
            let name = rng.pick(&["i", "s", "a", "b"]);
            random_change(&mut fixture, &mut rng, name);
            if rng.next_below(3) == 0 {
                // The agent restarts with its last status.
                fixture.pod.status = fixture.previous.take();
            }
            fixture.now = at(2000 + step);
            let status = fixture.status();
            let at = format!("seed {seed}, step {step}: {before:?} became {status:?}");
            if is_terminal(&before) {
                assert_eq!(status.phase, before.phase, "a terminal phase changed; {at}");
            }
            assert!(
                count(&status) >= count(&before),
                "a restart count decreased; {at}"
            );
            for condition in status.conditions.as_ref().unwrap() {
                let old = super::super::find_condition(before.conditions.as_ref(), &condition.type_).unwrap();
                let same = old.status == condition.status;
                assert_eq!(
                    same,
                    old.last_transition_time == condition.last_transition_time,
                    "the transition time must change with the status only; {at}"
                );
            }
            fixture.previous = Some(status.clone());
            fixture.now = super::at(5000);
            assert_eq!(
                fixture.status(),
                status,
                "the same input gave another status; {at}"
            );
            before = status;
        }
    }
}
