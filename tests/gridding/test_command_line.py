def test_pictures_show_what_is_stored(tmp_path: Path) -> None:
    run(configuration(healpix(6, 9, 12), FIELDS), segments(), store=tmp_path)
    store = open_grid(tmp_path)
    tree = ElementTree.fromstring(shards_svg(store))
    polygons = tree.findall(".//{http://www.w3.org/2000/svg}polygon")
    assert len(polygons) == 6 + 40 and "6 shards, 40 inner chunks" in (tree[0].text or "")
    outlines = json.loads(shards_geojson(store))
    assert [one["id"] for one in outlines["features"]] == store.shards().tolist()
    for one in outlines["features"]:
        ring = one["geometry"]["coordinates"][0]
        assert ring[0] == ring[-1] and len(ring) == 5
    assert len(json.loads(shards_geojson(store, "chunk"))["features"]) == 40
    pixels = field_pixels(store, "mean")
    values = store.everything(["mean"]).values["mean"]
    assert values.min() <= np.nanmin(pixels) <= np.nanmax(pixels) <= values.max()
    # the north-eastern corner of Greenland's coast is high, the west low
    assert field_png(store, "mean").startswith(b"\x89PNG")


CONFIG = """
data_source:
  files: {samples}/ATL06_*.h5
  groups: [gt1l, gt1r, gt2l, gt2r, gt3l, gt3r]
  coordinates: {{longitude: "{{group}}/land_ice_segments/longitude", latitude: "{{group}}/land_ice_segments/latitude"}}
  variables: {{h: "{{group}}/land_ice_segments/h_li"}}
  quality_filter: {{dataset: "{{group}}/land_ice_segments/atl06_quality_summary", value: 0}}
aggregation: {{variables: {{count: {{function: count}}, mean: {{function: mean, source: h}}}}}}
output:
  store: out.zarr
  grid: {{type: healpix, parent_order: 6, child_order: 12, chunk_inner: 9, sharded: true}}
execution: {{durability: rename}}
"""


def test_one_command_from_files_to_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    pytest.importorskip("yaml")
    (tmp_path / "a.yaml").write_text(CONFIG.format(samples=SAMPLES))
    parser = argparse.ArgumentParser()
    parser.set_defaults(json=False, quiet=True)
    verb.add_arguments(parser)

    def command(*words: str) -> tuple[int, str]:
        code = verb.run(parser.parse_args([words[0], str(tmp_path / "a.yaml"), *words[1:]]))
        return code, capsys.readouterr().out

    pictures = [f"--map={tmp_path}/m.svg", f"--picture={tmp_path}/h.png", "--field=mean"]
    code, out = command("run", *pictures)
    assert code == 0 and "22284 points in 254 cells, 14650 filtered" in out and "6 shards: 6 written" in out
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "m.svg").exists()
    assert "0 written, 6 current" in command("run")[1]
    code, out = command("plan", "--json", f"--out={tmp_path}/plan.json")
    found = json.loads(out)
    assert (found["shards"], found["points"], found["granules"]) == (6, 22_284, 8)
    assert "6 current" in command("run", f"--plan={tmp_path}/plan.json")[1]
    assert json.loads(command("status", "--json")[1])["chunks"] == 40
    assert command("audit")[0] == 0
    code, out = command("read", "--box=-50.3,70,-49.9,70.5")
    assert out.splitlines()[0] == "cell,longitude,latitude,count,mean" and len(out.splitlines()) == 5
    cell = out.splitlines()[1].split(",")
    code, out = command("read", f"--point={cell[1]},{cell[2]}")
    assert json.loads(out)["cell"] == int(cell[0])
    assert command("pyramid", "1")[1].strip() == "made 11"
    assert command("read", f"--out={tmp_path}/x.geojson")[0] == 0
    with pytest.raises(ValueError, match=r"\.svg, \.geojson or \.png"):
        command("read", "--out=x.jpg")
    (tmp_path / "out.zarr/12/count/c/16138").write_bytes(b"short")
    code, out = command("audit")
    assert code == 1 and "its receipt says" in out
