//! The image of an earlier run, by what the log says of it.

use act_core::event::Events;
use act_verifier::{FoundImage, NameNow, RecordedImage};
use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};

use crate::image;
use crate::world::World;

const REPO: &str = "127.0.0.1:9/act-test-recorded";

// AUDIT-25
#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_image_is_found_whatever_its_name_means() {
    let world = World::new().await;
    let name = format!("{REPO}:t{}", std::process::id());
    let label = format!("LABEL act.test={name}");
    image::import_changed(&world.docker, &name, image::busybox(), vec![label]).await;
    let known = world.engine.find_image(&name).await.unwrap().unwrap();
    let look = async |id: Option<&str>, digest: &str| {
        let recorded = RecordedImage { name: &name, id, digest };
        let found =
            world.engine.recorded_image(recorded, &Events::new("", vec![]), &world.cancel).await;
        found.unwrap().unwrap()
    };
    let means = async |image: &str| {
        let (repo, tag) = name.rsplit_once(':').unwrap();
        let options = TagImageOptions { repo: Some(repo.into()), tag: Some(tag.into()) };
        world.docker.tag_image(image, Some(options)).await.unwrap();
    };
    let remove = async |name: &str| {
        let options = RemoveImageOptions { force: true, ..Default::default() };
        let _ = world.docker.remove_image(name, Some(options), None).await;
    };
    let (id, digest) = (Some(known.id.as_str()), known.digest.as_str());
    let there = |named| FoundImage::Found(Box::new(known.clone()), named);
    for id in [id, None] {
        assert_eq!(look(id, digest).await, there(NameNow::Same));
    }

    let other = world.engine.find_image(image::EMPTY).await.unwrap().unwrap();
    means(image::EMPTY).await;
    assert_eq!(look(id, digest).await, there(NameNow::Other(other.id)));
    // Nothing that the name leads to now is taken for it.
    let strange = "d".repeat(64);
    assert!(matches!(look(Some(&strange), &strange).await, FoundImage::Unavailable(_)));
    remove(&name).await;
    assert_eq!(look(id, digest).await, there(NameNow::Missing));
    remove(&known.id).await;
    let FoundImage::Unavailable(why) = look(id, digest).await else { panic!("it is there") };
    assert!(!why.is_empty());
    // Text that is not a digest never becomes part of an address.
    assert!(matches!(look(Some("../x"), digest).await, FoundImage::Unavailable(_)));
    assert!(matches!(look(None, "").await, FoundImage::Unavailable(_)));
}
