//! A peer of the tests: the redis-work-queue of crates.io as an adder or a worker. It has no
//! cleaner.
//!
//!     peer PORT PREFIX add NAME COUNT
//!     peer PORT PREFIX work SEED LEASE
//!
//! It reports its actions in lines on its standard output.

use std::time::Duration;

use redis_work_queue::{Item, KeyPrefix, WorkQueue};

type Connection = redis::aio::MultiplexedConnection;

async fn add(db: &mut Connection, queue: WorkQueue, name: &str, count: usize) {
    for i in 0..count {
        let id = format!("{name}-{i}");
        let data = format!("data of {id}").into_bytes().into_boxed_slice();
        let added = queue.add_item(db, &Item { id: id.clone(), data }).await.unwrap();
        assert!(added, "{id} is not new");
        println!("added {id}");
    }
}

async fn work(db: &mut Connection, queue: WorkQueue, seed: u64, lease: Duration) {
    let mut state = seed | 1;
    let mut draw = move |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    loop {
        // With a timeout, both an id without data and an empty queue return None.
        let timeout = (draw(4) > 0).then_some(Duration::from_secs(1));
        let Some(item) = queue.lease(db, timeout, lease).await.unwrap() else {
            continue;
        };
        let data = String::from_utf8_lossy(&item.data).replace(' ', "_");
        println!("leased {} {data}", item.id);
        async_std::task::sleep(Duration::from_millis(draw(20))).await;
        if draw(20) == 0 {
            continue; // it gives up
        }
        println!("completing {}", item.id);
        let first = queue.complete(db, &item).await.unwrap();
        println!("completed {} {first}", item.id);
    }
}

#[async_std::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let url = format!("redis://127.0.0.1:{}/", args[1]);
    let client = redis::Client::open(url).unwrap();
    let mut db = client.get_multiplexed_async_std_connection().await.unwrap();
    let queue = WorkQueue::new(KeyPrefix::from(args[2].as_str()));
    match args[3].as_str() {
        "add" => add(&mut db, queue, &args[4], args[5].parse().unwrap()).await,
        "work" => {
            let lease = Duration::from_secs(args[5].parse().unwrap());
            work(&mut db, queue, args[4].parse().unwrap(), lease).await
        }
        role => panic!("unknown role {role}"),
    }
}
