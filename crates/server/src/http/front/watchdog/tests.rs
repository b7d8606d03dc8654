use std::net::Ipv4Addr;

use super::*;

const TIMEOUTS: Timeouts = Timeouts {
    header: Duration::from_secs(30),
    idle: Duration::from_secs(60),
    send: Duration::from_secs(20),
    total: Duration::from_secs(1000),
};

fn connection() -> Arc<Watchdog> {
    Watchdog::new(Ipv4Addr::LOCALHOST.into())
}

async fn after(traffic: &Watchdog) -> (CloseReason, u64) {
    let since = Instant::now();
    let over = traffic.over(TIMEOUTS).await;
    (over, since.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_first_request_has_the_time_of_a_head_and_the_next_that_of_an_idle_connection() {
    assert_eq!(after(&connection()).await, (CloseReason::Drop, 30));
    let traffic = connection();
    drop(traffic.begin());
    assert_eq!(after(&traffic).await, (CloseReason::Close, 60));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_has_its_own_time() {
    let traffic = connection();
    drop(traffic.begin());
    tokio::time::sleep(Duration::from_secs(50)).await;
    traffic.state.lock().reading_since = Some(Instant::now());
    assert_eq!(after(&traffic).await, (CloseReason::Drop, 30));
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_is_never_idle_but_grows_old() {
    let traffic = connection();
    let _exchange = traffic.begin();
    assert_eq!(after(&traffic).await, (CloseReason::Close, 1000));
    traffic.close(Some(Instant::now() + Duration::from_secs(5)));
    assert_eq!(after(&traffic).await, (CloseReason::Cut, 5));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_takes_cuts_the_connection_however_busy_the_others_are() {
    let traffic = connection();
    let mut lazy = traffic.begin();
    let mut eager = traffic.begin();
    lazy.given();
    for _ in 0..19 {
        eager.given();
        tokio::time::sleep(Duration::from_secs(1)).await;
        eager.taken();
    }
    assert_eq!(after(&traffic).await, (CloseReason::Cut, 1));
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_takes_a_few_bytes_now_and_then_takes_nothing() {
    let traffic = connection();
    let _exchange = traffic.begin();
    traffic.state.lock().blocked = Some((Instant::now(), 0));
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        traffic.state.lock().sent(10, 5000);
    }
    assert_eq!(after(&traffic).await, (CloseReason::Cut, 5));
    traffic.state.lock().sent(LEAST, 5000);
    assert_eq!(traffic.state.lock().blocked, None);
    traffic.state.lock().blocked = Some((Instant::now(), 0));
    traffic.state.lock().sent(1, 1);
    assert_eq!(traffic.state.lock().blocked, None, "it took all there was");
}

#[tokio::test]
async fn a_large_body_is_handed_on_in_pieces_and_comes_whole() {
    use http_body_util::BodyExt;
    let sent: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    let traffic = connection();
    let mut body = ResponseBody::new(Body::from(sent.clone()), traffic.begin(), None);
    let (mut got, mut parts) = (Vec::new(), 0);
    assert_eq!(body.size_hint().exact(), Some(200_000));
    while let Some(frame) = body.frame().await {
        got.extend_from_slice(&frame.unwrap().into_data().unwrap());
        parts += 1;
        assert_eq!(body.size_hint().exact(), Some(200_000 - got.len() as u64));
        assert_eq!(traffic.state.lock().stalled.len(), 1, "until it is taken");
    }
    assert_eq!((got == sent, parts), (true, 4));
    drop(body);
    let state = traffic.state.lock();
    assert!(state.under_way == 0 && state.stalled.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_needed_least_goes_first() {
    let [silent, asked, known] = [(); 3].map(|()| connection());
    drop(asked.begin());
    drop(known.begin());
    let claim = KeyClaim { key: "key".into(), tenant: TenantId::default() };
    known.claims(|claims| claims.push(claim));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let fresh = connection();
    let busy = connection();
    let _exchange = busy.begin();
    let mut ranks = [&known, &asked, &fresh, &silent].map(|it| it.standing().rank);
    ranks.sort();
    let want = [&silent, &fresh, &asked, &known].map(|it| it.standing().rank);
    assert_eq!(ranks, want);
    assert!(busy.standing().is_busy);
}
