//! Pause, annotations, approval.

use kube::ResourceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_left_alone_until_it_is_resumed() {
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    let machine = one(script(&log, "work", [done]));
    object.set_pause(true);
    let before = serde_json::to_value(&object).unwrap();
    assert_eq!(
        pass(&machine, &environment, &mut object).await.then,
        NextPass::Stop
    );
    assert_eq!(
        (log.all().len(), serde_json::to_value(&object).unwrap()),
        (0, before)
    );
    object.set_pause(false);
    drive(&machine, &environment, &mut object).await;
    assert_eq!(object.phase(), "Succeeded");
}

#[test]
fn the_pause_may_be_anywhere_in_the_object() {
    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    #[kube(
        group = "example.org",
        version = "v1",
        kind = "Other",
        namespaced,
        status = "MigrationStatus"
    )]
    struct OtherSpec {
        pause: bool,
    }
    phased!(Other, pause = spec.pause);
    let mut other = Other::new("o", OtherSpec { pause: true });
    assert!(other.paused());
    other.set_pause(false);
    assert!(!other.spec.pause && other.status.is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_before_the_time_an_annotation_names() {
    for mark in ["no-reconciling-before", "example.org/no-reconciling-before"] {
        let (log, environment, mut object) = (Log::default(), environment(), migration());
        let machine = one(script(&log, "work", [done]));
        let time = (environment.now() + seconds(90)).as_second().to_string();
        object.annotations_mut().insert(mark.to_owned(), time);
        let NextPass::After(wait) = pass(&machine, &environment, &mut object).await.then else {
            panic!("it waits")
        };
        assert!(wait > seconds(88) && wait <= seconds(90) && object.status.is_none());
        tokio::time::sleep(wait).await;
        drive(&machine, &environment, &mut object).await;
        assert_eq!(object.phase(), "Succeeded");
    }
    // What cannot be read holds nothing up.
    let (log, environment, mut object) = (Log::default(), environment(), migration());
    object
        .annotations_mut()
        .insert("no-reconciling-before".to_owned(), "tomorrow".to_owned());
    drive(&one(script(&log, "work", [done])), &environment, &mut object).await;
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_barrier_keeps_a_phase_from_beginning() {
    for (barrier, stops) in [
        ("move:Run", true),
        ("other:Run", false),
        ("a:b, *:Run", true),
        ("move", false),
    ] {
        let (log, environment, mut object) = (Log::default(), environment(), migration());
        let machine = two(
            script(&log, "check", [done]),
            script(&log, "move", [not_yet, done]),
        )
        .build()
        .unwrap();
        object
            .annotations_mut()
            .insert("reconciling-barrier".to_owned(), barrier.to_owned());
        drive(&machine, &environment, &mut object).await;
        assert_eq!(log.count("move") == 0, stops, "{barrier}");
        if stops {
            assert_eq!(object.phase(), "Run");
            machine
                .act(&mut object, &Action::Continue, environment.now())
                .unwrap();
            pass(&machine, &environment, &mut object).await;
            // Once begun, a phase is not stopped.
            object
                .annotations_mut()
                .insert("reconciling-barrier".to_owned(), barrier.to_owned());
            drive(&machine, &environment, &mut object).await;
        }
        assert_eq!(object.phase(), "Succeeded", "{barrier}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_phase_that_needs_approval_waits_for_it() {
    let audit = |result, message: &str| Action::Audit {
        result,
        by: "ann".to_owned(),
        message: message.to_owned(),
    };
    for (decision, phase, reason, runs) in [
        (audit(Approval::Passed, ""), "Succeeded", "", 1),
        (
            audit(Approval::Rejected, "too late"),
            "Failed",
            "rejected by ann: too late",
            0,
        ),
        (audit(Approval::Pending, ""), "Run", "", 0),
    ] {
        let (log, environment, mut object) = (Log::default(), environment(), migration());
        let machine = one_with(
            Phase::run(script(&log, "work", [done]))
                .needs_approval()
                .timeout(seconds(5)),
        );
        let told = pass(&machine, &environment, &mut object).await;
        assert_eq!(
            (told.then, told.notices[0].reason),
            (NextPass::Stop, reason::APPROVAL)
        );
        assert_eq!(object.phases().unwrap().audit["Run"].result, Approval::Pending);
        // The time of the phase does not run while it waits, and nobody is told twice.
        tokio::time::sleep(seconds(60)).await;
        assert!(pass(&machine, &environment, &mut object).await.notices.is_empty());
        machine.act(&mut object, &decision, environment.now()).unwrap();
        drive(&machine, &environment, &mut object).await;
        assert_eq!(
            (object.phase(), reason_of(&object).as_str(), log.all().len()),
            (phase, reason, runs)
        );
    }
}
