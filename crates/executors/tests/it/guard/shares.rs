//! Connections are shared: no tenant takes those of the others, whether it uses
//! them or lets them lie.

use std::time::Duration;

use windlass::{ErrorKind, TenantId};
use windlass_executors::outbound::{Outbound, OutboundPolicy, on_behalf};

use super::{get, refused};
use crate::support::{Site, allowing, text};

const MOST: usize = 10;

fn few() -> Outbound {
    let mut policy: OutboundPolicy = allowing(&["127.0.0.1"]);
    policy.max_connections = MOST;
    policy.connect_timeout = Duration::from_secs(3);
    Outbound::new(policy)
}

async fn sites(count: usize) -> Vec<Site> {
    let mut sites = Vec::new();
    for _ in 0..count {
        sites.push(Site::start(|_| text("fine")).await);
    }
    sites
}

async fn read(outbound: &Outbound, site: &Site) -> String {
    let answer = get(outbound, &site.url("/")).await.unwrap();
    String::from_utf8(answer.bytes().await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn connections_that_one_tenant_keeps_idle_make_room_for_another() {
    let (outbound, sites) = (few(), sites(2 * MOST).await);
    let [noisy, quiet] = ["noisy", "quiet"].map(TenantId::new);
    // Each host leaves one behind. One's own make room for one's next, too.
    on_behalf(Some(&noisy), async {
        for site in &sites {
            assert_eq!(read(&outbound, site).await, "fine");
        }
    })
    .await;
    let other = Site::start(|_| text("other")).await;
    let asked = on_behalf(Some(&quiet), read(&outbound, &other));
    let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
    assert_eq!(asked.expect("it did not wait"), "other");
}

#[tokio::test]
async fn connections_that_one_tenant_uses_leave_some_for_another() {
    let (outbound, sites) = (few(), sites(MOST).await);
    let [noisy, quiet] = ["noisy", "quiet"].map(TenantId::new);
    let held = on_behalf(Some(&noisy), async {
        let mut held = Vec::new();
        for site in &sites {
            match get(&outbound, &site.url("/")).await {
                Ok(answer) => held.push(answer),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
                    break;
                }
            }
        }
        held
    })
    .await;
    assert_eq!(held.len(), MOST / 5 * 4, "four of five");
    let other = Site::start(|_| text("other")).await;
    assert_eq!(on_behalf(Some(&quiet), read(&outbound, &other)).await, "other");
    // What is in use stays.
    let site = &sites[MOST - 1];
    let error = refused(on_behalf(Some(&noisy), get(&outbound, &site.url("/"))).await);
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    for answer in held {
        assert_eq!(answer.bytes().await.unwrap(), "fine");
    }
    assert_eq!(on_behalf(Some(&noisy), read(&outbound, site)).await, "fine");
}

/// A connection is used again while the answer before is still held.
#[tokio::test]
async fn a_connection_in_use_is_not_taken_away_whoever_used_it_before() {
    let (outbound, sites) = (few(), sites(2).await);
    let first = get(&outbound, &sites[0].url("/")).await.unwrap();
    let mut again = Vec::new();
    for _ in 0..50 {
        let second = get(&outbound, &sites[0].url("/")).await.unwrap();
        again.push(second);
        if again.len() > 3 {
            again.remove(0);
        }
    }
    drop(first);
    let flood = TenantId::new("flood");
    let many = self::sites(3 * MOST).await;
    on_behalf(Some(&flood), async {
        for site in &many {
            assert_eq!(read(&outbound, site).await, "fine");
        }
    })
    .await;
    for answer in again {
        assert_eq!(answer.bytes().await.unwrap(), "fine");
    }
}
