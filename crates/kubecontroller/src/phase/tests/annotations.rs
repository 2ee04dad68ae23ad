//! Tests of pause, annotations and approval.

use kube::ResourceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn paused_object_is_not_processed() {
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
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
fn pause_field_can_be_in_the_spec() {
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
async fn not_before_annotation_delays_processing() {
    for annotation in ["no-reconciling-before", "example.org/no-reconciling-before"] {
        let log = CallLog::default();
        let environment = environment();
        let mut object = migration();
        let machine = one(script(&log, "work", [done]));
        let time = (environment.now() + seconds(90)).as_second().to_string();
        object.annotations_mut().insert(annotation.to_owned(), time);
        let NextPass::After(wait) = pass(&machine, &environment, &mut object).await.then else {
            panic!("the machine does not wait")
        };
        assert!(wait > seconds(88) && wait <= seconds(90) && object.status.is_none());
        tokio::time::sleep(wait).await;
        drive(&machine, &environment, &mut object).await;
        assert_eq!(object.phase(), "Succeeded");
    }
    // A value that cannot be parsed is ignored.
    let log = CallLog::default();
    let environment = environment();
    let mut object = migration();
    object
        .annotations_mut()
        .insert("no-reconciling-before".to_owned(), "tomorrow".to_owned());
    drive(&one(script(&log, "work", [done])), &environment, &mut object).await;
    assert_eq!(object.phase(), "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn barrier_annotation_blocks_start_of_phase() {
    for (barrier, stops) in [
        ("move:Run", true),
        ("other:Run", false),
        ("a:b, *:Run", true),
        ("move", false),
    ] {
        let log = CallLog::default();
        let environment = environment();
        let mut object = migration();
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
            // A phase that has started is not blocked.
            object
                .annotations_mut()
                .insert("reconciling-barrier".to_owned(), barrier.to_owned());
            drive(&machine, &environment, &mut object).await;
        }
        assert_eq!(object.phase(), "Succeeded", "{barrier}");
    }
}

#[tokio::test(start_paused = true)]
async fn phase_that_needs_approval_waits() {
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
        let log = CallLog::default();
        let environment = environment();
        let mut object = migration();
        let machine = one_with(
            Phase::run(script(&log, "work", [done]))
                .needs_approval()
                .timeout(seconds(5)),
        );
        let first = pass(&machine, &environment, &mut object).await;
        assert_eq!(
            (first.then, first.events[0].reason),
            (NextPass::Stop, reason::APPROVAL)
        );
        assert_eq!(object.phases().unwrap().audit["Run"].result, Approval::Pending);
        // The timeout does not run while the phase waits, and the event is not repeated.
        tokio::time::sleep(seconds(60)).await;
        assert!(pass(&machine, &environment, &mut object).await.events.is_empty());
        machine.act(&mut object, &decision, environment.now()).unwrap();
        drive(&machine, &environment, &mut object).await;
        assert_eq!(
            (object.phase(), reason_of(&object).as_str(), log.all().len()),
            (phase, reason, runs)
        );
    }
}
