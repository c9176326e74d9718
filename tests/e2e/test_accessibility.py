"""axe-core on the tab: nothing serious, whatever is shown."""

from __future__ import annotations

import event_bytes
import pytest
from checkout import ROOT

pytestmark = pytest.mark.e2e

AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


def complaints(tab):
    """What axe-core calls serious or critical, each with the element it is about."""
    assert AXE.is_file(), "npm ci in frontend/ installs axe-core"
    if not tab.frame.evaluate("() => 'axe' in window"):
        tab.frame.evaluate(AXE.read_text(encoding="utf-8"))
    found = tab.frame.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    assert found["passes"], "axe-core looked at nothing"
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_whole_tab(open_tab, demo_base, scheme, locale):
    tab = open_tab(base=demo_base, locale=locale, color_scheme=scheme)
    tab.find("select-visible").click()
    tab.ready()
    tab.checked()
    tab.find("finding-advice").first.wait_for()
    assert complaints(tab) == []


def test_menus_dialogs_and_a_selected_finding(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("lr_too_high")
    tab.checked()
    tab.frame.locator('[data-testid="finding-zoom"]').first.click()
    tab.ready()
    assert complaints(tab) == []
    for opener in ("export", "refresh", "help"):
        tab.find(opener).click()
        assert complaints(tab) == [], opener
        tab.page.keyboard.press("Escape")
    row = tab.find("run-row").first
    row.hover()
    row.locator('[data-testid="run-colour"]').click()
    assert complaints(tab) == []


def test_stacked_panels(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.frame.get_by_text("Stacked").click()
    tab.frame.locator('[data-mode="stacked"]').wait_for()
    tab.ready()
    assert complaints(tab) == []
    tab.find("below").get_by_text("Values").click()
    tab.find("values-row").first.wait_for()
    assert complaints(tab) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison_and_a_layout(open_tab, demo_base, scheme):
    tab = open_tab(base=demo_base, color_scheme=scheme)
    tab.select("lr_too_high", "grad_explosion_kept_lr")
    tab.find("views").get_by_text("Compare").click()
    tab.find("pin-choice").wait_for()
    assert complaints(tab) == []
    tab.find("pin-choice").select_option("healthy_warmup_cosine")
    tab.find("overlay", mode="compare", state="ready").wait_for()
    tab.find("compare-settings-toggle").click()
    assert complaints(tab) == []
    tab.find("export").click()
    tab.find("export-layout").click()
    tab.find("layout-dialog", state="ready").wait_for()
    tab.find("layout-chart").first.click()
    assert complaints(tab) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tags_that_are_given_roles(open_tab, tmp_path, scheme):
    event_bytes.write(tmp_path / "run", *(event_bytes.scalars(s, objective__total=2.0, g2=1.0) for s in range(1, 30)))
    tab = open_tab(tmp_path, color_scheme=scheme)
    tab.find("role-picker").wait_for()
    assert complaints(tab) == []
    tab.find("roles-show").click()
    tab.ready()
    tab.find("pick-roles").click()
    tab.find("roles-dialog").locator('[data-testid="role-picker"]').wait_for()
    assert complaints(tab) == []


def test_an_empty_logdir(open_tab, tmp_path):
    tab = open_tab(tmp_path)
    assert complaints(tab) == []


def test_the_keyboard_reaches_everything_in_order(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("lr_too_high")
    tab.checked()
    tab.find("filter").focus()
    seen = []
    for _ in range(200):
        tab.page.keyboard.press("Tab")
        place = tab.frame.evaluate(
            """() => {
              const el = document.activeElement;
              const { outlineStyle, backgroundImage } = getComputedStyle(el);
              const visible = outlineStyle !== 'none' || backgroundImage !== 'none';
              return [el.dataset.testid ?? (el.className || el.tagName), visible];
            }"""
        )
        if place[0] == "BODY" and seen:
            break
        seen.append(place)
    names = [name for name, _ in seen]
    for wanted in ("run-checkbox", "run-name", "run-colour", "run-pin", "plot", "finding-zoom", "findings-copy"):
        assert wanted in names, wanted
    assert [name for name, visible in seen if not visible] == []
    assert names.index("run-checkbox") < names.index("plot") < names.index("finding-zoom")


def test_findings_are_a_list_of_sentences(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.select("lr_too_high")
    tab.checked()
    spoken = tab.frame.locator("body").aria_snapshot()
    assert "Loss left its level" in spoken
    assert "list" in spoken
    assert 'img "critical"' in spoken


def test_help_opens_with_a_question_mark_and_closes_with_escape(open_tab, demo_base):
    tab = open_tab(base=demo_base)
    tab.frame.locator("body").press("?")
    tab.find("help-dialog").wait_for()
    tab.page.keyboard.press("Escape")
    tab.find("help-dialog").wait_for(state="detached")
