-- include: search/page_by_last_seen

-- A page of the sessions past their deadline at `upto`, earliest first: their refs, their deadlines, and where the next
-- page begins, as page_by_last_seen has it. A page begins with the last session of the one before, which is left out.
local function waiting_page(deadlines, upto, limit, score, ref)
  local flat, next_score, next_ref = page_by_last_seen(deadlines, '-inf', upto, limit, score, ref)
  local refs, scores = {}, {}
  for i = flat[1] == ref and 3 or 1, #flat, 2 do
    refs[#refs + 1], scores[#scores + 1] = flat[i], flat[i + 1]
  end
  return refs, scores, next_score, next_ref
end
