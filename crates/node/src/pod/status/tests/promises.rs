//! What holds of all statuses, whatever happens to a pod. The seed is in the message of a failure.

use super::{super::is_over, *};

/// Numbers that look like luck, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let index = self.roll(of.len().try_into().unwrap());
        of[usize::try_from(index).unwrap()]
    }
}

/// Something happens to a container.
fn happen(world: &mut World, dice: &mut Dice, name: &str) {
    let newest = world.seen.containers.iter().position(|one| one.name == name);
    match (newest, dice.roll(8)) {
        (_, 0) => world.seen.containers.retain(|one| one.name != name),
        (None, 1..=4) => world.seen.containers.insert(0, container(name, 0, running())),
        (Some(index), 1) => world.seen.containers[index].state = exited(0),
        (Some(index), 2) => world.seen.containers[index].state = exited(1),
        (Some(index), 3) => world.seen.containers[index].state = ContainerState::Unknown,
        (Some(index), 4) if !world.seen.containers[index].is_running() => {
            let attempt = world.seen.containers[index].attempt + 1;
            world
                .seen
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
fn whatever_happens_the_promises_hold() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let policy = dice.pick(&["Always", "OnFailure", "Never"]);
        let mut world = super::world(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}],
        }));
        world.seen.sandboxes = vec![sandbox("s1", SandboxState::Ready)];
        let mut before = world.status();
        world.previous = Some(before.clone());
        for step in 0..40 {
            let name = dice.pick(&["i", "s", "a", "b"]);
            happen(&mut world, &mut dice, name);
            if dice.roll(3) == 0 {
                // The agent begins again, and knows what it told.
                world.pod.status = world.previous.take();
            }
            world.now = at(2000 + step);
            let status = world.status();
            let at = format!("seed {seed}, step {step}: {before:?} became {status:?}");
            if is_over(&before) {
                assert_eq!(status.phase, before.phase, "a pod that ended stays so; {at}");
            }
            assert!(count(&status) >= count(&before), "counts never go down; {at}");
            for condition in status.conditions.as_ref().unwrap() {
                let old = super::super::condition(before.conditions.as_ref(), &condition.type_).unwrap();
                let same = old.status == condition.status;
                assert_eq!(
                    same,
                    old.last_transition_time == condition.last_transition_time,
                    "times; {at}"
                );
            }
            world.previous = Some(status.clone());
            world.now = super::at(5000);
            assert_eq!(world.status(), status, "the same gives the same; {at}");
            before = status;
        }
    }
}
